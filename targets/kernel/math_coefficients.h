// Written by targets/math_coefficients.py.
#ifndef NACRE_KERNEL_MATH_COEFFICIENTS_H
#define NACRE_KERNEL_MATH_COEFFICIENTS_H

#include "nacre/base.h"

namespace nk::coefficients {

// (e^r - 1 - r) / r^2, |r| <= ln(2) / 2; error 6.3e-8
inline constexpr float kExpFloat[] = {
    0.5f, 0.166665763f, 0.0416663699f, 0.00836335495f, 0.00139414275f};
// the same; error 1.4e-18
inline constexpr double kExpDouble[] = {
    0x1.0000000000000p-1, 0x1.5555555555557p-3, 0x1.5555555555558p-5, 0x1.111111111007ap-7,
    0x1.6c16c16c1515fp-10, 0x1.a01a01ac1d1f6p-13, 0x1.a01a01ad34bbap-16, 0x1.71de0189a76a0p-19,
    0x1.27e4cc426356ep-22, 0x1.af4f45d8b498fp-26, 0x1.1f8c379a6dc38p-29};
// (ln(1 + f) - f + f^2 / 2) / f^3, |f| <= 1/3; error 2.2e-8
inline constexpr float kLogFloat[] = {
    0.333333343f, -0.249999434f, 0.199997485f, -0.166733995f, 0.143008664f, -0.122872241f, 0.107857823f,
    -0.124299318f, 0.119159691f};
// (ln((1 + s) / (1 - s)) - 2 s) / s^3 in s^2, s^2 <= 0.0402; error 2.4e-19
inline constexpr double kLogDouble[] = {
    0x1.5555555555555p-1, 0x1.9999999999988p-2, 0x1.2492492495159p-2, 0x1.c71c71c18dc50p-3,
    0x1.745d1a08bb49fp-3, 0x1.3b12ec3fca592p-3, 0x1.113135ba5abf3p-3, 0x1.dbce9db238f71p-4,
    0x1.fd2713574d674p-4};
// the same without its first term 2/3; error 2.2e-19
inline constexpr double kLogDoubleRest[] = {
    0x1.999999999999ap-2, 0x1.2492492492482p-2, 0x1.c71c71c7218fdp-3, 0x1.745d1740bcc63p-3,
    0x1.3b13b3c158486p-3, 0x1.11105cfe6e1bap-3, 0x1.e21ca5586bf69p-4, 0x1.a99af23fc6fc9p-4,
    0x1.cd5cec165751bp-4};
// (sin r - r) / r^3 in r^2, |r| <= pi / 4; error 3.6e-9
inline constexpr float kSinFloat[] = {
    -0.166666552f, 0.00833217334f, -0.000195166562f};
// (cos r - 1 + r^2 / 2) / r^4 in r^2; error 9.6e-11
inline constexpr float kCosFloat[] = {
    0.0416666456f, -0.00138873619f, 2.44377297e-05f};
// as kSinFloat; error 3.5e-18
inline constexpr double kSinDouble[] = {
    -0x1.5555555555549p-3, 0x1.111111110f842p-7, -0x1.a01a019c0a293p-13, 0x1.71de3570fdd04p-19,
    -0x1.ae5e60c4e988fp-26, 0x1.5d915e2f0639bp-33};
// as kCosFloat; error 4.7e-20
inline constexpr double kCosDouble[] = {
    0x1.555555555554cp-5, -0x1.6c16c16c15140p-10, 0x1.a01a019cab74cp-16, -0x1.27e4f805342f6p-22,
    0x1.1ee9e8910d5d5p-29, -0x1.8facd1878a911p-37};
// -ln(erfc(t)) / t, 0 <= t <= 4; error 4.0e-9
inline constexpr float kErfFloat[] = {
    1.12837923f, 0.636619389f, 0.102777727f, -0.0191527233f, -0.000160974916f, 0.00166756962f,
    -0.000633117917f, 0.000117716489f, -9.26434041e-06f};
// erf(x) / x - 1 in x^2, |x| <= 1; error 1.3e-19
inline constexpr double kErfDouble[] = {
    0x1.06eba8214db69p-3, -0x1.812746b0379e6p-2, 0x1.ce2f21a042b32p-4, -0x1.b82ce31284ea3p-6,
    0x1.565bcd0dbc12dp-8, -0x1.c02db3db01217p-11, 0x1.f9a321dc185b5p-14, -0x1.f4d1e387f282cp-17,
    0x1.b9df275dcd30bp-20, -0x1.5f1ef1fcbc1abp-23, 0x1.f7b62fad86709p-27, -0x1.38a136790832dp-30,
    0x1.0608f733c7167p-34};
// erfc(x) exp(x^2) (1 + 2 x) in (x - 2) / (x + 2), 0.5 <= x <= 30; error 1.1e-18
inline constexpr double kErfcDouble[] = {
    0x1.46e80e2277953p+0, -0x1.7bf5ec1700632p-4, -0x1.5407bebf3242fp-3, 0x1.4ffa1e14e27e4p-3,
    -0x1.bc2b95619aa9dp-5, -0x1.074234049209dp-7, 0x1.1dd2ec91e2923p-7, 0x1.4d461d3a82eabp-10,
    -0x1.7de521c500c97p-10, -0x1.dc693518501a5p-12, 0x1.b0c8d3403ba15p-13, 0x1.3cc0c2b61a0f8p-13,
    -0x1.96519738dad63p-20, -0x1.318bb6a22b908p-15, -0x1.c41fd85209886p-17, 0x1.f11e743cbed65p-19,
    0x1.5ab4471de4aaap-18, 0x1.9ffebcf2fbb0dp-20, -0x1.3b85f98155c3cp-21, -0x1.02e867828dda1p-20,
    -0x1.8815e5211bba9p-22, 0x1.5cdca73f2fda8p-22, 0x1.82fecca094836p-23, -0x1.8bae820b258c9p-24,
    -0x1.9d70b115fde6fp-29};
// (atan x - x) / x^3 in x^2, |x| <= tan(pi / 8); error 1.3e-18
inline constexpr double kAtanDouble[] = {
    -0x1.555555555553dp-2, 0x1.9999999995863p-3, -0x1.24924922ad97ep-3, 0x1.c71c70e6314b5p-4,
    -0x1.745cf8e0156aap-4, 0x1.3b11194de3788p-4, -0x1.10ebb97a15557p-4, 0x1.df0f4b9c89418p-5,
    -0x1.9cd26bba3e778p-5, 0x1.37d3fbc0ce355p-5, -0x1.2564d27af869cp-6};
// (asin x - x) / x^3 in x^2, |x| <= 1/2; error 1.5e-17
inline constexpr double kAsinDouble[] = {
    0x1.5555555555384p-3, 0x1.333333336fdd2p-4, 0x1.6db6db419c029p-5, 0x1.f1c72c7fb89a8p-6,
    0x1.6e89edb691a94p-6, 0x1.1c6c42e07d655p-6, 0x1.c6f65b5dbd459p-7, 0x1.8ef2eb16cf0bap-7,
    0x1.aa3622f7983c2p-8, 0x1.41092c72e3badp-6, -0x1.0b7ff4b422bc6p-6, 0x1.05febf2fec43cp-5};
// 2^f, |f| <= 1/2, for float results; error 4.1e-11
inline constexpr double kExp2Float[] = {
    0x1.ffffffffa6e81p-1, 0x1.62e42fef6cba7p-1, 0x1.ebfbe0aa422fdp-3, 0x1.c6b08e072776fp-5,
    0x1.3b29d88863c76p-7, 0x1.5d87157b7f6a3p-10, 0x1.446ca1c779814p-13, 0x1.00f7d1c2bd895p-16};

// Constants in parts: each part but the last has trailing zeros, so that small multiples of it are exact.
// Ln2Float
inline constexpr float kLn2Float[] = {
    0.693145752f, 1.42860677e-06f};
// Ln2Double
inline constexpr double kLn2Double[] = {
    0x1.62e42fefa3000p-1, 0x1.3de6af278ece6p-42};
// HalfPiFloat
inline constexpr float kHalfPiFloat[] = {
    1.57079625f, 7.54978942e-08f, 5.39030295e-15f};
// HalfPiDouble
inline constexpr double kHalfPiDouble[] = {
    0x1.921fb54400000p+0, 0x1.0b4611a600000p-34, 0x1.3198a2e000000p-69, 0x1.b839a252049c1p-104};
// 2 / pi in pieces of 29 bits
inline constexpr double kTwoOverPiChunks[] = {
    0x1.45f306d000000p-1, 0x1.9391054000000p-30, 0x1.4fe13ab000000p-59, 0x1.d1f534d000000p-88,
    0x1.b81b6c5000000p-117, 0x1.5993c40000000p-148, 0x1.c820ff2000000p-175};
// 2 / pi, binary digits after the point, behind one word of zeros
inline constexpr uint64_t kTwoOverPi[] = {0x0000000000000000ull, 0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull,
    0xfe5163abdebbc561ull, 0xb7246e3a424dd2e0ull, 0x06492eea09d1921cull, 0xfe1deb1cb129a73eull,
    0xe88235f52ebb4484ull, 0xe99c7026b45f7e41ull, 0x3991d639835339f4ull, 0x9c845f8bbdf9283bull,
    0x1ff897ffde05980full, 0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull, 0x4f463f669e5fea2dull,
    0x7527bac7ebe5f17bull, 0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b6babull,
    0xf0cfbc209af4361dull};

}  // namespace nk::coefficients
#endif

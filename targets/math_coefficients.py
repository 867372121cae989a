"""Writes kernel/math_coefficients.h: minimax polynomials and split constants for kernel/math.h.

Run with a Python that has mpmath:  python3 targets/math_coefficients.py > targets/kernel/math_coefficients.h
Each polynomial is fitted by Remez exchange in 90 digits, then its coefficients are rounded to the type that uses them.
"""
import struct

import mpmath as mp

mp.mp.dps = 90


def remez(f, low, high, degree, weight=lambda x: mp.mpf(1), rounds=12):
    """Coefficients, lowest first, of the polynomial that minimises max |weight(x) (f(x) - p(x))| on [low, high]."""
    low, high = mp.mpf(low), mp.mpf(high)
    count = degree + 2
    points = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / (count - 1)) for i in range(count)]
    for _ in range(rounds):
        matrix, right = mp.matrix(count, count), mp.matrix(count, 1)
        for i, x in enumerate(points):
            for j in range(degree + 1):
                matrix[i, j] = x ** j
            matrix[i, degree + 1] = (-1) ** i / weight(x)
            right[i] = f(x)
        solution = mp.lu_solve(matrix, right)
        coefficients = [solution[j] for j in range(degree + 1)]

        def error(x):
            return weight(x) * (f(x) - mp.polyval(coefficients[::-1], x))
        # One extremum between each pair of sign changes, found on a grid and sharpened by a parabola.
        grid = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / 600) for i in range(601)]
        values = [error(x) for x in grid]
        extrema, start = [], 0
        for i in range(1, len(grid) + 1):
            if i == len(grid) or (values[i] > 0) != (values[start] > 0):
                best = max(range(start, i), key=lambda j: abs(values[j]))
                x = grid[best]
                if 0 < best < len(grid) - 1:
                    a, b, c = values[best - 1], values[best], values[best + 1]
                    bend = a - 2 * b + c
                    if bend != 0:
                        moved = x + (a - c) / bend / 2 * (grid[best + 1] - grid[best - 1]) / 2
                        if grid[best - 1] < moved < grid[best + 1] and abs(error(moved)) > abs(b):
                            x = moved
                extrema.append(x)
                start = i
        if len(extrema) < count:
            break
        while len(extrema) > count:
            drop = 0 if abs(error(extrema[0])) < abs(error(extrema[-1])) else len(extrema) - 1
            extrema.pop(drop)
        points = extrema
    worst = max(abs(error(low + (high - low) * i / 400)) for i in range(401) if low + (high - low) * i / 400 != 0)
    return coefficients, worst


def as_float(x):
    return struct.unpack("f", struct.pack("f", float(x)))[0]


def literal(x, kind):
    if kind == "float":
        value = as_float(x)
        text = "%.9g" % value
        return text + ("" if "." in text or "e" in text else ".0") + "f"
    return float(x).hex()


def emit(name, kind, values, note):
    print(f"// {note}")
    body = ", ".join(literal(v, kind) for v in values)
    line, lines = "", []
    for item in body.split(", "):
        if len(line) + len(item) > 100:
            lines.append(line.rstrip())
            line = ""
        line += item + ", "
    lines.append(line.rstrip(", "))
    print(f"inline constexpr {kind} {name}[] = {{\n    " + "\n    ".join(lines) + "};")


def near_zero(f, limit):
    """f, which is 0/0 at 0, with its limit there."""
    return lambda x: mp.mpf(limit) if abs(x) < mp.mpf("1e-20") else f(x)


def fit(name, kind, f, low, high, degree, note, weight=lambda x: mp.mpf(1)):
    coefficients, worst = remez(f, low, high, degree, weight)
    emit(name, kind, coefficients, f"{note}; error {mp.nstr(worst, 2)}")


def main():
    print("// Written by targets/math_coefficients.py.")
    print("#ifndef NACRE_KERNEL_MATH_COEFFICIENTS_H\n#define NACRE_KERNEL_MATH_COEFFICIENTS_H\n")
    print("#include \"nacre/base.h\"\n\nnamespace nk::coefficients {\n")
    half_ln2 = mp.log(2) / 2 * mp.mpf("1.003")

    expm = near_zero(lambda r: (mp.expm1(r) - r) / r ** 2, 0.5)
    fit("kExpFloat", "float", expm, -half_ln2, half_ln2, 4, "(e^r - 1 - r) / r^2, |r| <= ln(2) / 2")
    fit("kExpDouble", "double", expm, -half_ln2, half_ln2, 10, "the same")

    logm = near_zero(lambda f: (mp.log1p(f) - f + f * f / 2) / f ** 3, mp.mpf(1) / 3)
    fit("kLogFloat", "float", logm, mp.mpf(-1) / 3 - mp.mpf("1e-6"), mp.mpf(1) / 3 + mp.mpf("1e-6"), 8,
        "(ln(1 + f) - f + f^2 / 2) / f^3, |f| <= 1/3")
    # ln((1 + s) / (1 - s)) = 2 s + s^3 R(s^2)
    def log_rest(z):
        if z < mp.mpf("1e-10"):
            return mp.mpf(2) / 3 + 2 * z / 5
        s = mp.sqrt(z)
        return (2 * mp.atanh(s) - 2 * s) / s ** 3
    fit("kLogDouble", "double", log_rest, 0, mp.mpf("0.0402"), 8, "(ln((1 + s) / (1 - s)) - 2 s) / s^3 in s^2, s^2 <= 0.0402")
    def log_rest2(z):
        return (log_rest(z) - mp.mpf(2) / 3) / z if z > mp.mpf("1e-9") else mp.mpf(2) / 5 + 2 * z / 7
    fit("kLogDoubleRest", "double", log_rest2, 0, mp.mpf("0.0402"), 8, "the same without its first term 2/3")

    quarter2 = (mp.pi / 4) ** 2 * mp.mpf("1.002")
    def sin_rest(z):
        if z < mp.mpf("1e-9"):
            return mp.mpf(-1) / 6 + z / 120
        r = mp.sqrt(z)
        return (mp.sin(r) - r) / r ** 3
    def cos_rest(z):
        if z < mp.mpf("1e-9"):
            return mp.mpf(1) / 24 - z / 720
        return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z ** 2
    fit("kSinFloat", "float", sin_rest, 0, quarter2, 2, "(sin r - r) / r^3 in r^2, |r| <= pi / 4", lambda z: z + mp.mpf("1e-9"))
    fit("kCosFloat", "float", cos_rest, 0, quarter2, 2, "(cos r - 1 + r^2 / 2) / r^4 in r^2", lambda z: z * z + mp.mpf("1e-9"))
    fit("kSinDouble", "double", sin_rest, 0, quarter2, 5, "as kSinFloat", lambda z: z + mp.mpf("1e-9"))
    fit("kCosDouble", "double", cos_rest, 0, quarter2, 5, "as kCosFloat", lambda z: z * z + mp.mpf("1e-9"))

    def erf_ratio(z):
        if z < mp.mpf("1e-12"):
            return 2 / mp.sqrt(mp.pi) * (1 - z / 3) - 1
        x = mp.sqrt(z)
        return mp.erf(x) / x - 1
    fit("kErfFloat", "float", lambda t: 2 / mp.sqrt(mp.pi) if t < mp.mpf("1e-20") else -mp.log(mp.erfc(t)) / t, 0, 4, 8,
        "-ln(erfc(t)) / t, 0 <= t <= 4", lambda t: mp.mpf(1) if t < mp.mpf("1e-20") else t * mp.erfc(t) / mp.erf(t))
    fit("kErfDouble", "double", erf_ratio, 0, mp.mpf("1.001"), 12, "erf(x) / x - 1 in x^2, |x| <= 1")
    # erfc(x) = exp(-x^2) g(u) / (1 + 2 x) with u = (x - 2) / (x + 2), for x >= 1/2
    def erfcx(u):
        x = 2 * (1 + u) / (1 - u)
        return mp.erfc(x) * mp.exp(x * x) * (1 + 2 * x)
    fit("kErfcDouble", "double", erfcx, mp.mpf(-1) / 3 - mp.mpf("0.27"), mp.mpf("28") / 32, 24, "erfc(x) exp(x^2) (1 + 2 x) in (x - 2) / (x + 2), 0.5 <= x <= 30")

    def atan_rest(z):
        if z < mp.mpf("1e-9"):
            return mp.mpf(-1) / 3 + z / 5
        x = mp.sqrt(z)
        return (mp.atan(x) - x) / x ** 3
    limit = mp.tan(mp.pi / 8) ** 2 * mp.mpf("1.001")
    fit("kAtanDouble", "double", atan_rest, 0, limit, 10, "(atan x - x) / x^3 in x^2, |x| <= tan(pi / 8)", lambda z: z + mp.mpf("1e-9"))
    def asin_rest(z):
        if z < mp.mpf("1e-9"):
            return mp.mpf(1) / 6 + 3 * z / 40
        x = mp.sqrt(z)
        return (mp.asin(x) - x) / x ** 3
    fit("kAsinDouble", "double", asin_rest, 0, mp.mpf("0.2501"), 11, "(asin x - x) / x^3 in x^2, |x| <= 1/2", lambda z: z + mp.mpf("1e-9"))
    exp2m = near_zero(lambda f: mp.mpf(2) ** f, 1)
    fit("kExp2Float", "double", exp2m, mp.mpf("-0.5001"), mp.mpf("0.5001"), 7, "2^f, |f| <= 1/2, for float results")

    print("\n// Constants in parts: each part but the last has trailing zeros, so that small multiples of it are exact.")
    def parts(name, kind, value, bits, count):
        out = []
        rest = value
        for i in range(count):
            if i == count - 1:
                out.append(rest)
            else:
                exponent = mp.floor(mp.log(abs(rest), 2))
                unit = mp.mpf(2) ** (exponent - bits + 1)
                part = mp.floor(rest / unit) * unit
                out.append(part)
                rest -= part
        emit(name, kind, out, f"{name[1:]}")
    parts("kLn2Float", "float", mp.log(2), 15, 2)
    parts("kLn2Double", "double", mp.log(2), 41, 2)
    parts("kHalfPiFloat", "float", mp.pi / 2, 24, 3)
    parts("kHalfPiDouble", "double", mp.pi / 2, 32, 4)
    two_over_pi = 2 / mp.pi
    mp.mp.dps = 500
    value = 2 / mp.pi
    chunks, rest = [], value
    for i in range(7):
        unit = mp.mpf(2) ** (-29 * (i + 1))
        part = mp.floor(rest / unit) * unit
        chunks.append(part)
        rest -= part
    emit("kTwoOverPiChunks", "double", chunks, "2 / pi in pieces of 29 bits")
    words, rest = [0], value
    for i in range(20):
        rest *= mp.mpf(2) ** 64
        word = int(mp.floor(rest))
        words.append(word)
        rest -= word
    print("// 2 / pi, binary digits after the point, behind one word of zeros")
    print("inline constexpr uint64_t kTwoOverPi[] = {" + ",\n    ".join(", ".join("0x%016xull" % w for w in words[i:i + 4]) for i in range(0, len(words), 4)) + "};")
    print("\n}  // namespace nk::coefficients\n#endif")


main()

// The outermost structure: what is written is read back, and no damage goes unnoticed.
#include <gtest/gtest.h>

#include "formats/dump.h"
#include "formats/verify.h"
#include "tests/unit/runtime/fixture.h"

namespace nacre::test {
namespace {

struct Verdict {
  nacre_verdict verdict;
  std::string why;
};

Verdict verify(std::span<const uint8_t> bytes) {
  Aligned aligned(bytes);
  char buffer[512];
  nacre_text why;
  nacre_text_start(&why, buffer, sizeof buffer);
  nacre_container container;
  const nacre_verdict verdict = nacre_verify(aligned.data(), aligned.size(), &container, &why);
  return {verdict, buffer};
}

fmt::Artifact with_weights(std::vector<uint8_t>& storage) {
  fmt::Artifact a = scale_artifact();
  storage.resize(300);
  for (std::size_t i = 0; i < storage.size(); ++i) storage[i] = static_cast<uint8_t>(i * 7);
  a.weights = {{"first", NACRE_f32, {25}, {storage.data(), 100}},
               {"second", NACRE_u8, {200}, {storage.data() + 100, 200}},
               {"first again", NACRE_f32, {25}, {storage.data(), 100}},
               {"empty", NACRE_f32, {0}, {}}};
  a.states = {{"cache", NACRE_f32, {25}, 100, 0}, {"zeros", NACRE_u8, {7}, 7, -1}};
  return a;
}

TEST(Container, OtherKernelsOfCommandsAreASectionThatNoRuntimeReads) {
  std::vector<uint8_t> storage;
  fmt::Artifact a = with_weights(storage);
  const std::vector<uint8_t> without = fmt::artifact_bytes(a);
  fmt::Variant& variant = a.entries[0].variants[0];
  ASSERT_EQ(variant.commands[0].kind, NACRE_COMMAND_call);
  variant.candidates = {{0, variant.commands[0].target, 0, 0, fmt::Size::constant(0), "x86-64-v3: a 1x2 = 3", "its own"},
                        {0, 1, 64, 2, fmt::Size::node(0), "x86-64-v3: a 1x2 = 3", "16x32, stages 4"}};
  Aligned bytes(fmt::artifact_bytes(a));
  EXPECT_EQ(verify(bytes.span()).verdict, NACRE_VERDICT_GOOD) << verify(bytes.span()).why;
  const fmt::Artifact b = fmt::read_artifact(bytes.span());
  EXPECT_EQ(b.entries, a.entries);
  EXPECT_EQ(fmt::artifact_bytes(b), fmt::artifact_bytes(a));
  a.entries[0].variants[0].candidates.clear();
  EXPECT_EQ(fmt::artifact_bytes(a), without);
  // Text that was changed, and a command that there is not.
  std::vector<uint8_t> changed(bytes.span().begin(), bytes.span().end());
  const std::string own = "its own";
  const auto found = std::search(changed.begin(), changed.end(), own.begin(), own.end());
  ASSERT_NE(found, changed.end());
  *found ^= 1;
  Aligned damaged(changed);
  EXPECT_THROW(fmt::read_artifact(damaged.span()), fmt::FormatError);
  variant.candidates = {{77, 0, 0, 0, fmt::Size::constant(0), "x86-64-v3: a", "b"}};
  Aligned wrong(fmt::artifact_bytes(a));
  EXPECT_THROW(fmt::read_artifact(wrong.span()), fmt::FormatError);
}

TEST(Container, HoldsWhatWasWritten) {
  std::vector<uint8_t> storage;
  const fmt::Artifact a = with_weights(storage);
  Aligned bytes(fmt::artifact_bytes(a));
  const fmt::Artifact b = fmt::read_artifact(bytes.span());
  EXPECT_EQ(a.producer, b.producer);
  EXPECT_EQ(a.symbols, b.symbols);
  EXPECT_EQ(a.provenances, b.provenances);
  EXPECT_EQ(a.images, b.images);
  EXPECT_EQ(a.kernels, b.kernels);
  EXPECT_EQ(a.states, b.states);
  EXPECT_EQ(a.imports, b.imports);
  EXPECT_EQ(a.entries, b.entries);
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (std::size_t i = 0; i < a.weights.size(); ++i) {
    EXPECT_EQ(a.weights[i].name, b.weights[i].name);
    EXPECT_EQ(a.weights[i].dims, b.weights[i].dims);
    ASSERT_EQ(a.weights[i].bytes.size(), b.weights[i].bytes.size());
    EXPECT_TRUE(std::equal(a.weights[i].bytes.begin(), a.weights[i].bytes.end(),
                           b.weights[i].bytes.begin()));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(b.weights[i].bytes.data()) % 64, 0u);
  }
}

TEST(Container, KeepsEqualWeightsOnce) {
  std::vector<uint8_t> storage;
  Aligned bytes(fmt::artifact_bytes(with_weights(storage)));
  const fmt::Artifact b = fmt::read_artifact(bytes.span());
  EXPECT_EQ(b.weights[0].bytes.data(), b.weights[2].bytes.data());
  EXPECT_NE(b.weights[0].bytes.data(), b.weights[1].bytes.data());
}

TEST(Container, SameStructsGiveSameBytes) {
  std::vector<uint8_t> storage, other;
  EXPECT_EQ(fmt::artifact_bytes(with_weights(storage)), fmt::artifact_bytes(with_weights(other)));
}

TEST(Container, NoticesEveryChangedBitOutsideTheWeights) {
  const std::vector<uint8_t> good = fmt::artifact_bytes(scale_artifact());
  ASSERT_EQ(verify(good).verdict, NACRE_VERDICT_GOOD) << verify(good).why;
  Aligned sections(good);
  char buffer[64];
  nacre_text why;
  nacre_text_start(&why, buffer, sizeof buffer);
  nacre_container container;
  ASSERT_EQ(nacre_verify(sections.data(), sections.size(), &container, &why), NACRE_VERDICT_GOOD);
  // Bytes that belong to something; what fills the gaps between sections does not matter.
  std::vector<bool> used(good.size());
  std::fill_n(used.begin(), 64 + container.section_count * sizeof(nacre_section), true);
  for (uint32_t i = 0; i < container.section_count; ++i) {
    std::fill_n(used.begin() + static_cast<std::ptrdiff_t>(container.sections[i].offset),
                container.sections[i].size, true);
  }
  Aligned changed(good);
  for (std::size_t i = 0; i < good.size(); ++i) {
    if (!used[i]) continue;
    const auto bit = static_cast<uint8_t>(1u << (i * 5 % 8));
    changed.data()[i] ^= bit;
    nacre_text_start(&why, buffer, sizeof buffer);
    EXPECT_NE(nacre_verify(changed.data(), changed.size(), &container, &why), NACRE_VERDICT_GOOD)
        << "byte " << i;
    EXPECT_GT(why.length, 0u);
    changed.data()[i] ^= bit;
  }
}

TEST(Container, NoticesEveryTruncation) {
  const std::vector<uint8_t> good = fmt::artifact_bytes(scale_artifact());
  for (std::size_t size = 0; size < good.size(); size += size < 512 ? 1 : 97) {
    const Verdict v = verify(std::span(good).first(size));
    EXPECT_EQ(v.verdict, NACRE_VERDICT_DAMAGED) << size;
  }
}

TEST(Container, NoticesChangedWeightsWhenAsked) {
  std::vector<uint8_t> storage;
  Aligned bytes(fmt::artifact_bytes(with_weights(storage)));
  bytes.data()[bytes.size() - 1] ^= 1;
  char buffer[512];
  nacre_text why;
  nacre_text_start(&why, buffer, sizeof buffer);
  nacre_container container;
  EXPECT_EQ(nacre_verify(bytes.data(), bytes.size(), &container, &why), NACRE_VERDICT_GOOD);
  EXPECT_EQ(nacre_verify_data(&container, &why), NACRE_VERDICT_DAMAGED);
  EXPECT_STREQ(buffer, "the weights do not match their digest");
  bytes.data()[bytes.size() - 1] ^= 1;
  EXPECT_EQ(nacre_verify_data(&container, &why), NACRE_VERDICT_GOOD);
}

TEST(Container, SaysWhatIsWrong) {
  const std::vector<uint8_t> good = fmt::artifact_bytes(scale_artifact());
  EXPECT_EQ(verify(std::vector<uint8_t>(100, 'x')).why, "not a nacre artifact");
  std::vector<uint8_t> text = good;
  text[0] = '?';
  EXPECT_NE(verify(text).why.find("text mode"), std::string::npos);
  std::vector<uint8_t> future = good;
  future[16] = 2;
  const Verdict newer = verify(future);
  EXPECT_EQ(newer.verdict, NACRE_VERDICT_NEWER);
  EXPECT_EQ(newer.why,
            "the artifact has format 2, this runtime reads format 1; use a runtime of the nacre "
            "that made it, or "
            "compile it again");
  EXPECT_NE(verify(std::span(good).first(good.size() - 1)).why.find("truncated"),
            std::string::npos);
}

}  // namespace
}  // namespace nacre::test

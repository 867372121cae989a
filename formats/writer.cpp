// Order of the file: header, section table, META, code images, weights. Everything is laid out
// first; then it is written in one pass.
#include "formats/writer.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "formats/checksum.h"
#include "formats/kernel_abi.h"
#include "formats/verify.h"
#include "meta_generated.h"

namespace nacre::formats {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
template <typename T>
using Table = std::vector<Offset<T>>;

constexpr uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Where each weight lies in DATA.
struct DataPlan {
  std::vector<uint64_t> offsets;     // by weight
  std::vector<std::size_t> written;  // weights that bring their bytes, in order of offset
  uint64_t size = 0;
};

DataPlan plan_data(const std::vector<Weight>& weights) {
  DataPlan plan;
  std::unordered_multimap<uint64_t, std::size_t> by_digest;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto bytes = weights[i].bytes;
    const uint64_t digest = nacre_digest(bytes.data(), bytes.size());
    const auto [first, last] = by_digest.equal_range(digest);
    auto same = first;
    for (; same != last; ++same) {
      const auto other = weights[same->second].bytes;
      if (other.size() == bytes.size() &&
          (bytes.empty() || !std::memcmp(other.data(), bytes.data(), bytes.size()))) {
        break;
      }
    }
    if (same != last) {
      plan.offsets.push_back(plan.offsets[same->second]);
      continue;
    }
    by_digest.emplace(digest, i);
    plan.size = round_up(plan.size, NACRE_DATA_ALIGN);
    plan.offsets.push_back(plan.size);
    plan.size += bytes.size();
    plan.written.push_back(i);
  }
  return plan;
}

// Strings repeat a lot (files, modules), so each is stored once.
class MetaBuilder {
 public:
  MetaBuilder(const Artifact& artifact, const DataPlan& data) : artifact_(artifact), data_(data) {}

  FlatBufferBuilder build() &&;

 private:
  Offset<flatbuffers::String> string(const std::string& text) {
    const auto known = strings_.find(text);
    if (known != strings_.end()) return known->second;
    return strings_.emplace(text, out_.CreateString(text)).first->second;
  }

  template <typename T, typename Make>
  auto vector(const std::vector<T>& values, Make make) {
    std::vector<decltype(make(values[0]))> made;
    made.reserve(values.size());
    for (const T& value : values) made.push_back(make(value));
    return out_.CreateVector(made);
  }

  template <typename F, typename T, typename Make>
  auto structs(const std::vector<T>& values, Make make) {
    std::vector<F> made;
    made.reserve(values.size());
    for (const T& value : values) made.push_back(make(value));
    return out_.CreateVectorOfStructs(made);
  }

  Offset<fmt::Tensor> tensor(const Tensor& t) {
    std::vector<int64_t> sizes;
    for (const Size& size : t.dims) sizes.push_back(size.raw);
    const auto name = string(t.name);
    const auto dims = out_.CreateVector(sizes);
    const auto layout = t.layout.empty() ? 0 : out_.CreateVector(t.layout);
    std::vector<int64_t> most;
    for (const Size& size : t.bounds) most.push_back(size.raw);
    const auto bounds = most.empty() ? 0 : out_.CreateVector(most);
    const auto path = t.path.empty() ? 0 : string(t.path);
    return fmt::CreateTensor(out_, name, static_cast<uint8_t>(t.dtype), t.flags, dims, layout, bounds, path);
  }

  auto tensors(const std::vector<Tensor>& values) {
    return vector(values, [&](const Tensor& t) { return tensor(t); });
  }

  auto nodes(const std::vector<Node>& values) {
    return structs<fmt::Node>(
        values, [](const Node& n) { return fmt::Node(n.in_file().kind, n.a, n.b); });
  }

  Offset<fmt::Variant> variant(const Variant& v) {
    const auto name = string(v.name);
    const auto guards = structs<fmt::Guard>(v.guards, [](const Guard& g) {
      return fmt::Guard(static_cast<uint16_t>(g.kind), g.input, g.dim, 0, g.ref, g.lo, g.hi);
    });
    const auto nodes_of = nodes(v.nodes);
    const auto slots = structs<fmt::Slot>(v.slots, [](const Slot& s) {
      return fmt::Slot(static_cast<uint32_t>(s.kind), s.index, s.offset.raw, s.size.raw);
    });
    std::vector<uint32_t> operands, lines;
    const auto commands = structs<fmt::Command>(v.commands, [&](const Command& c) {
      const auto first = static_cast<uint32_t>(operands.size());
      const auto first_line = static_cast<uint32_t>(lines.size());
      operands.insert(operands.end(), c.operands.begin(), c.operands.end());
      lines.insert(lines.end(), c.provenances.begin(), c.provenances.end());
      return fmt::Command(static_cast<uint16_t>(c.kind), c.flags, c.threads, c.target, first,
                          static_cast<uint32_t>(c.operands.size()), first_line,
                          static_cast<uint32_t>(c.provenances.size()), c.grid, c.scratch.raw,
                          c.flops.raw, c.bytes.raw);
    });
    const auto operands_of = out_.CreateVector(operands);
    const auto lines_of = out_.CreateVector(lines);
    const auto described = tensors(v.slot_tensors);
    return fmt::CreateVariant(out_, name, guards, nodes_of, slots, operands_of, lines_of, commands,
                              v.arena_size.raw, v.arena_bound, v.scratch_bound, described, v.spare_nodes);
  }

  Offset<fmt::Entry> entry(const Entry& e) {
    const auto name = string(e.name);
    const auto inputs = tensors(e.inputs);
    const auto outputs = tensors(e.outputs);
    const auto nodes_of = nodes(e.nodes);
    const auto variants = vector(e.variants, [&](const Variant& v) { return variant(v); });
    return fmt::CreateEntry(out_, name, inputs, outputs, nodes_of, variants);
  }

  const Artifact& artifact_;
  const DataPlan& data_;
  FlatBufferBuilder out_;
  std::unordered_map<std::string, Offset<flatbuffers::String>> strings_;
};

FlatBufferBuilder MetaBuilder::build() && {
  const auto producer = string(artifact_.producer);
  const auto symbols = vector(artifact_.symbols, [&](const Symbol& s) {
    const auto name = string(s.name);
    return fmt::CreateSymbol(out_, name, s.min, s.max, s.multiple);
  });
  const auto provenances = vector(artifact_.provenances, [&](const Provenance& p) {
    const auto op = string(p.op), module = string(p.module), file = string(p.file);
    return fmt::CreateProvenance(out_, op, module, file, p.line);
  });
  const auto images = vector(artifact_.images, [&](const Image& i) {
    const auto target = string(i.target);
    return fmt::CreateImage(out_, target, i.machine, i.features);
  });
  const auto kernels = vector(artifact_.kernels, [&](const Kernel& k) {
    const auto name = string(k.name);
    const auto lines = out_.CreateVector(k.provenances);
    return fmt::CreateKernel(out_, name, k.image, k.index, k.size_bytes, lines);
  });
  std::size_t number = 0;
  const auto weights = vector(artifact_.weights, [&](const Weight& w) {
    const auto name = string(w.name);
    const auto dims = out_.CreateVector(w.dims);
    return fmt::CreateWeight(out_, name, static_cast<uint8_t>(w.dtype), dims,
                             data_.offsets[number++], w.bytes.size());
  });
  const auto states = vector(artifact_.states, [&](const State& s) {
    const auto name = string(s.name);
    const auto dims = out_.CreateVector(s.dims);
    return fmt::CreateState(out_, name, static_cast<uint8_t>(s.dtype), dims, s.size_bytes,
                            s.initial);
  });
  const auto imports = vector(artifact_.imports, [&](const Import& i) {
    const auto name = string(i.name), arguments = string(i.arguments);
    return fmt::CreateImport(out_, name, arguments, i.input_count);
  });
  const auto entries = vector(artifact_.entries, [&](const Entry& e) { return entry(e); });
  out_.Finish(fmt::CreateMeta(out_, producer, NACRE_KERNEL_ABI, symbols, provenances, images,
                              kernels, weights, states, imports, entries),
              fmt::MetaIdentifier());
  return std::move(out_);
}

using Sink = std::function<void(std::span<const uint8_t>)>;

// Passes bytes on and knows how far the file is.
class Stream {
 public:
  explicit Stream(const Sink& sink) : sink_(sink) {}

  void put(const void* bytes, std::size_t size) {
    if (size) sink_({static_cast<const uint8_t*>(bytes), size});
    position_ += size;
  }
  void zeros_up_to(uint64_t position) {
    static const uint8_t kZeros[NACRE_CODE_ALIGN] = {};
    while (position_ < position) {
      put(kZeros,
          static_cast<std::size_t>(std::min<uint64_t>(sizeof kZeros, position - position_)));
    }
  }

 private:
  const Sink& sink_;
  uint64_t position_ = 0;
};

void put_data(const Artifact& artifact, const DataPlan& plan, uint64_t base, Stream& stream) {
  for (const std::size_t i : plan.written) {
    stream.zeros_up_to(base + plan.offsets[i]);
    stream.put(artifact.weights[i].bytes.data(), artifact.weights[i].bytes.size());
  }
}

// The digest of what comes in pieces.
class DigestStream {
 public:
  DigestStream() { XXH3_64bits_reset(&state_); }
  void add(std::span<const uint8_t> piece) {
    XXH3_64bits_update(&state_, piece.data(), piece.size());
  }
  uint64_t value() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

// The verifier that a runtime applies, on META alone.
void check_meta(const FlatBufferBuilder& meta, uint64_t data_size, std::size_t image_count) {
  char buffer[1024];
  nacre_text why;
  nacre_text_start(&why, buffer, sizeof buffer);
  // The builder aligns to the buffer's end, not its beginning.
  std::vector<uint64_t> aligned((meta.GetSize() + 7) / 8);
  std::memcpy(aligned.data(), meta.GetBufferPointer(), meta.GetSize());
  if (nacre_verify_meta(aligned.data(), meta.GetSize(), data_size,
                        static_cast<uint32_t>(image_count), &why)) {
    throw FormatError(std::string("the artifact would be malformed: ") + buffer);
  }
}

// The first version that knows all that is in it.
uint16_t minor_version(const Artifact& artifact) {
  const auto new_nodes = [](const auto& list) { return std::any_of(list.nodes.begin(), list.nodes.end(), [](const Node& n) { return n.number; }); };
  for (const Entry& e : artifact.entries)
    if (new_nodes(e) || std::any_of(e.variants.begin(), e.variants.end(), new_nodes)) return NACRE_FORMAT_MINOR;
  return 0;
}

std::string choices_text(const Artifact& artifact) {
  std::string text;
  for (std::size_t e = 0; e < artifact.entries.size(); ++e)
    for (std::size_t v = 0; v < artifact.entries[e].variants.size(); ++v)
      for (const Candidate& c : artifact.entries[e].variants[v].candidates) {
        for (const int64_t number : {static_cast<int64_t>(e), static_cast<int64_t>(v), int64_t{c.command}, int64_t{c.kernel}, int64_t{c.threads}, int64_t{c.grid}, c.scratch.raw})
          text += std::to_string(number) + " ";
        text += c.question + " = " + c.choice + "\n";
      }
  return text;
}

}  // namespace

ArtifactSizes write_artifact(const Artifact& artifact, const Sink& sink, const Sink& weights) {
  const DataPlan data = plan_data(artifact.weights);
  const FlatBufferBuilder meta = MetaBuilder(artifact, data).build();
  check_meta(meta, data.size, artifact.images.size());

  std::vector<nacre_section> sections;
  const std::string choices = choices_text(artifact);
  const std::size_t count = 1 + artifact.images.size() + (choices.empty() ? 0 : 1) + (data.size ? 1 : 0);
  if (count > NACRE_MAX_SECTIONS) throw FormatError("too many code images for one artifact");
  uint64_t end = sizeof(nacre_file_header) + count * sizeof(nacre_section);
  const auto add = [&](nacre_section_kind kind, uint64_t size, uint32_t align, uint32_t id,
                       uint64_t digest) {
    const uint64_t offset = round_up(end, align);
    sections.push_back({static_cast<uint32_t>(kind), 0, offset, size, align, id, digest});
    end = offset + size;
  };
  add(NACRE_SECTION_META, meta.GetSize(), NACRE_DATA_ALIGN, 0,
      nacre_digest(meta.GetBufferPointer(), meta.GetSize()));
  for (std::size_t i = 0; i < artifact.images.size(); ++i) {
    const auto& bytes = artifact.images[i].bytes;
    add(NACRE_SECTION_CODE, bytes.size(), NACRE_CODE_ALIGN, static_cast<uint32_t>(i),
        nacre_digest(bytes.data(), bytes.size()));
  }
  if (!choices.empty()) {
    add(NACRE_SECTION_CHOICES, choices.size(), 1, 0, nacre_digest(choices.data(), choices.size()));
    sections.back().flags = NACRE_SECTION_OPTIONAL;
  }
  if (data.size) {
    DigestStream digest;
    const Sink hash = [&](std::span<const uint8_t> piece) { digest.add(piece); };
    Stream stream(hash);
    put_data(artifact, data, 0, stream);
    add(NACRE_SECTION_DATA, data.size, weights ? NACRE_APART_ALIGN : NACRE_DATA_ALIGN, 0, digest.value());
  }

  nacre_file_header header = {};
  std::memcpy(header.magic, NACRE_MAGIC, sizeof header.magic);
  header.major = NACRE_FORMAT_MAJOR;
  const bool apart = weights && data.size;
  if (weights && !data.size) throw FormatError("there are no weights to lie in a file of their own");
  header.minor = apart ? NACRE_FORMAT_MINOR : minor_version(artifact);
  if (apart) {
    header.apart = sections.back().offset;
    header.apart_digest = sections.back().digest;
  }
  header.section_count = static_cast<uint32_t>(sections.size());
  header.file_size = end;
  std::vector<uint8_t> head(sizeof header + sections.size() * sizeof(nacre_section));
  std::memcpy(head.data() + sizeof header, sections.data(),
              sections.size() * sizeof(nacre_section));
  std::memcpy(head.data(), &header, sizeof header);
  header.digest = nacre_digest(head.data() + 16, head.size() - 16);
  std::memcpy(head.data(), &header, sizeof header);

  Stream stream(sink);
  stream.put(head.data(), head.size());
  ArtifactSizes sizes;
  sizes.file = apart ? header.apart : end;
  sizes.meta = meta.GetSize();
  sizes.data = data.size;
  std::size_t image = 0;
  for (const nacre_section& section : sections) {
    stream.zeros_up_to(section.offset);
    if (section.kind == NACRE_SECTION_META) {
      stream.put(meta.GetBufferPointer(), meta.GetSize());
    } else if (section.kind == NACRE_SECTION_CODE) {
      const auto& bytes = artifact.images[image++].bytes;
      sizes.code += bytes.size();
      stream.put(bytes.data(), bytes.size());
    } else if (section.kind == NACRE_SECTION_CHOICES) {
      stream.put(choices.data(), choices.size());
    } else if (apart) {
      Stream other(weights);
      put_data(artifact, data, 0, other);
      other.zeros_up_to(data.size);
      nacre_weights_end tail = {};
      std::memcpy(tail.magic, NACRE_WEIGHTS_MAGIC, sizeof tail.magic);
      tail.digest = section.digest;
      other.put(&tail, sizeof tail);
    } else {
      put_data(artifact, data, section.offset, stream);
    }
  }
  return sizes;
}

std::vector<uint8_t> artifact_bytes(const Artifact& artifact) {
  std::vector<uint8_t> bytes;
  write_artifact(artifact, [&](std::span<const uint8_t> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return bytes;
}

}  // namespace nacre::formats

#include "compiler/support/npy.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <memory>

#include "compiler/support/dtype.h"
#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "compiler/support/print.h"

namespace nacre {
namespace {

constexpr std::string_view kMagic{"\x93NUMPY", 6};
// NumPy's kind and size of each type. bfloat16 has none and goes as u2; the first match reads.
struct TypeName {
  std::string_view numpy;
  nacre_dtype dtype;
};
constexpr std::array<TypeName, 15> kTypes{{{"b1", NACRE_bool_},
                                           {"i1", NACRE_i8},
                                           {"i2", NACRE_i16},
                                           {"i4", NACRE_i32},
                                           {"i8", NACRE_i64},
                                           {"u1", NACRE_u8},
                                           {"u2", NACRE_u16},
                                           {"u4", NACRE_u32},
                                           {"u8", NACRE_u64},
                                           {"f2", NACRE_f16},
                                           {"f4", NACRE_f32},
                                           {"f8", NACRE_f64},
                                           {"c8", NACRE_c64},
                                           {"c16", NACRE_c128},
                                           {"u2", NACRE_bf16}}};

struct Header {
  nacre_dtype dtype = NACRE_DTYPE_NONE;
  bool big_endian = false;
  bool fortran = false;
  std::vector<std::int64_t> shape;
};

// The header is a Python dict literal with three known keys, e.g.
// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  Header read() {
    Header header;
    bool seen[3] = {};
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr") {
        read_type(header);
        seen[0] = true;
      } else if (key == "fortran_order") {
        header.fortran = boolean();
        seen[1] = true;
      } else if (key == "shape") {
        header.shape = tuple();
        seen[2] = true;
      } else {
        bad(fmt::format("unknown key '{}'", key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!seen[0] || !seen[1] || !seen[2]) bad("a key is missing");
    return header;
  }

 private:
  [[noreturn]] void bad(std::string_view why) {
    fail(ErrorKind::user, "{}: its .npy header is damaged: {}", name_, why);
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad(fmt::format("no '{}' at byte {}", c, at_));
  }
  std::string quoted() {
    skip();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') bad(fmt::format("no string at byte {}", at_));
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) bad("a string without an end");
    const std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }
  bool boolean() {
    skip();
    for (const auto& [word, value] : {std::pair{"True", true}, std::pair{"False", false}}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += std::strlen(word);
        return value;
      }
    }
    bad("fortran_order is neither True nor False");
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    while (!accept(')')) {
      skip();
      std::int64_t value = 0;
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
      if (error != std::errc{} || value < 0) bad("a dimension is no number");
      at_ += static_cast<std::size_t>(end - begin);
      values.push_back(value);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }
  void read_type(Header& header) {
    skip();
    if (at_ < text_.size() && text_[at_] == '[')
      fail(ErrorKind::user, "{}: arrays of records are not supported", name_);
    const std::string descr = quoted();
    const bool marked =
        !descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string::npos;
    header.big_endian = !descr.empty() && descr[0] == '>';
    const std::string_view type = std::string_view(descr).substr(marked ? 1 : 0);
    const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                    [&](const TypeName& name) { return name.numpy == type; });
    if (found == kTypes.end())
      fail(ErrorKind::user, "{}: arrays of NumPy type '{}' are not supported", name_, descr);
    header.dtype = found->dtype;
  }

  std::string_view text_;
  std::string_view name_;
  std::size_t at_ = 0;
};

void swap_bytes(std::byte* data, std::size_t size, nacre_dtype dtype) {
  const std::size_t part = nacre_dtype_size_bytes(dtype) / (is_complex(dtype) ? 2 : 1);
  for (std::size_t at = 0; at < size; at += part) std::reverse(data + at, data + at + part);
}

// Element (i0, i1, ..) of a Fortran-order array lies at i0 + d0 * (i1 + d1 * ..).
void copy_fortran(std::byte* to, const std::byte* from, const std::vector<std::int64_t>& shape,
                  std::size_t size, std::size_t item) {
  std::vector<std::int64_t> index(shape.size(), 0);
  for (std::size_t at = 0; at < size; at += item) {
    std::int64_t source = 0;
    for (std::size_t d = shape.size(); d-- > 0;) source = source * shape[d] + index[d];
    std::memcpy(to + at, from + static_cast<std::size_t>(source) * item, item);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

struct ZipCloser {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct ZipFileCloser {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

}  // namespace

HostTensor parse_npy(std::span<const std::byte> bytes, std::string_view name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic) || text.size() < 10)
    fail(ErrorKind::user, "{} is not an .npy file", name);
  const int version = text[6];
  const bool wide = version >= 2;
  if (version < 1 || version > 3)
    fail(ErrorKind::user, "{}: .npy version {} is not supported", name, version);
  const std::size_t start = wide ? 12 : 10;
  std::size_t header_size = 0;
  for (std::size_t i = start; i-- > 8;)
    header_size = header_size * 256 + (i < text.size() ? static_cast<unsigned char>(text[i]) : 0);
  if (text.size() < start || header_size > text.size() - start)
    fail(ErrorKind::user, "{} is cut short inside its header", name);
  const Header header = HeaderReader(text.substr(start, header_size), name).read();

  const std::size_t item = nacre_dtype_size_bytes(header.dtype);
  auto size = static_cast<std::int64_t>(item);
  for (const std::int64_t dim : header.shape) {
    if (__builtin_mul_overflow(size, dim, &size))
      fail(ErrorKind::user, "{}: its shape ({}) is too large", name, joined(header.shape));
  }
  const std::span<const std::byte> data = bytes.subspan(start + header_size);
  if (data.size() < static_cast<std::size_t>(size))
    fail(ErrorKind::user, "{} is cut short: its shape ({}) of type {} needs {} bytes, it has {}",
         name, joined(header.shape), nacre_dtype_name(header.dtype), size, data.size());
  std::byte* to = nullptr;
  HostTensor tensor = make_tensor(header.dtype, header.shape, &to);
  if (header.fortran && header.shape.size() > 1)
    copy_fortran(to, data.data(), header.shape, tensor.size_bytes, item);
  else if (size > 0)
    std::memcpy(to, data.data(), tensor.size_bytes);
  if (header.big_endian) swap_bytes(to, tensor.size_bytes, header.dtype);
  return tensor;
}

HostTensor read_npy(const std::filesystem::path& path) {
  return parse_npy(read_bytes(path), path.string());
}

std::string npy_bytes(const HostTensor& tensor) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const TypeName& name) { return name.dtype == tensor.dtype; });
  check(found != kTypes.end(), "a tensor of dtype {} cannot be an .npy file",
        nacre_dtype_name(tensor.dtype));
  const std::vector<std::int64_t>& shape = tensor.shape;
  std::string header =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}",
                  nacre_dtype_size_bytes(tensor.dtype) == 1 ? '|' : '<', found->numpy,
                  fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  // The data starts at a multiple of 64 bytes and the header ends with a line end, as NumPy has it.
  constexpr std::size_t kBefore = 10;
  header.append(63 - (kBefore + header.size()) % 64, ' ');
  header += '\n';
  if (header.size() > 0xFFFF)
    fail(ErrorKind::unsupported, "an array of {} dimensions", shape.size());
  std::string out(kMagic);
  out += {'\x01', '\x00', static_cast<char>(header.size() & 0xFF),
          static_cast<char>(header.size() >> 8)};
  out += header;
  out.append(tensor.as<char>(), tensor.size_bytes);
  return out;
}

void write_npy(const std::filesystem::path& path, const HostTensor& tensor) {
  write_file(path, npy_bytes(tensor));
}

std::vector<std::pair<std::string, HostTensor>> read_npz(const std::filesystem::path& path) {
  const AlignedBytes bytes = read_bytes(path);
  const auto refuse = [&](std::string_view why) {
    fail(ErrorKind::user, "{} is not a readable .npz file: {}", path.string(), why);
  };
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  if (!source) fail(ErrorKind::environment, "no memory to read {}", path.string());
  const std::unique_ptr<zip_t, ZipCloser> archive(
      zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error));
  if (!archive) {
    const std::string why = zip_error_strerror(&error);
    zip_source_free(source);
    zip_error_fini(&error);
    refuse(why);
  }
  std::vector<std::pair<std::string, HostTensor>> arrays;
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t info;
    if (zip_stat_index(archive.get(), static_cast<zip_uint64_t>(i), 0, &info) != 0)
      refuse(zip_strerror(archive.get()));
    const std::unique_ptr<zip_file_t, ZipFileCloser> file(
        zip_fopen_index(archive.get(), static_cast<zip_uint64_t>(i), 0));
    if (!file) refuse(zip_strerror(archive.get()));
    // The stated size is not to be trusted with an allocation: deflate reaches about 1:1000.
    if (info.size > 1032 * (info.comp_size + 64)) refuse("an entry states an impossible size");
    AlignedBytes content(info.size);
    zip_uint64_t filled = 0;
    while (filled < info.size) {
      const zip_int64_t got = zip_fread(file.get(), content.data() + filled, info.size - filled);
      if (got <= 0) refuse(fmt::format("entry {} is damaged", info.name));
      filled += static_cast<zip_uint64_t>(got);
    }
    std::string name = info.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    HostTensor tensor = parse_npy(content, fmt::format("{}, entry {}", path.string(), name));
    arrays.emplace_back(std::move(name), std::move(tensor));
  }
  return arrays;
}

}  // namespace nacre

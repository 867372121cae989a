#include "compiler/support/npy.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>

#include "compiler/support/error.h"
#include "compiler/support/file.h"
#include "compiler/support/print.h"

namespace nacre {
namespace {

constexpr std::string_view kMagic{"\x93NUMPY", 6};
constexpr std::array<std::string_view, 14> kTypes{"b1", "i1", "i2", "i4", "i8", "u1", "u2",
                                                  "u4", "u8", "f2", "f4", "f8", "c8", "c16"};

struct Header {
  std::string type;
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
    header.type = descr.substr(marked ? 1 : 0);
    if (std::find(kTypes.begin(), kTypes.end(), header.type) == kTypes.end())
      fail(ErrorKind::user, "{}: arrays of NumPy type '{}' are not supported (only {})", name_,
           descr, joined(kTypes));
  }

  std::string_view text_;
  std::string_view name_;
  std::size_t at_ = 0;
};

std::int64_t item_size_of(std::string_view type) {
  std::int64_t size = 0;
  std::from_chars(type.data() + 1, type.data() + type.size(), size);
  return size;
}

void swap_bytes(Buffer& data, const std::string& type) {
  const bool complex = type[0] == 'c';
  const auto part = static_cast<std::size_t>(complex ? item_size_of(type) / 2 : item_size_of(type));
  for (std::size_t at = 0; at + part <= data.size(); at += part)
    std::reverse(data.begin() + static_cast<std::ptrdiff_t>(at),
                 data.begin() + static_cast<std::ptrdiff_t>(at + part));
}

// Element (i0, i1, ..) of a Fortran-order array lies at i0 + d0 * (i1 + d1 * ..).
Buffer from_fortran(const Buffer& data, const std::vector<std::int64_t>& shape, std::size_t item) {
  Buffer out(data.size());
  std::vector<std::int64_t> index(shape.size(), 0);
  for (std::size_t to = 0; to < data.size(); to += item) {
    std::int64_t from = 0;
    for (std::size_t d = shape.size(); d-- > 0;) from = from * shape[d] + index[d];
    std::memcpy(out.data() + to, data.data() + static_cast<std::size_t>(from) * item, item);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

struct ZipCloser {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct ZipFileCloser {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

}  // namespace

std::int64_t Array::item_size() const { return item_size_of(type); }

std::int64_t Array::count() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

Array parse_npy(std::span<const std::byte> bytes, std::string_view name) {
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

  Array array{header.type, header.shape, {}};
  std::int64_t size = array.item_size();
  for (const std::int64_t dim : header.shape) {
    if (__builtin_mul_overflow(size, dim, &size))
      fail(ErrorKind::user, "{}: its shape ({}) is too large", name, joined(header.shape));
  }
  const std::span<const std::byte> data = bytes.subspan(start + header_size);
  if (data.size() < static_cast<std::size_t>(size))
    fail(ErrorKind::user, "{} is cut short: its shape ({}) of type {} needs {} bytes, it has {}",
         name, joined(header.shape), header.type, size, data.size());
  array.data.assign(data.begin(), data.begin() + size);
  if (header.big_endian) swap_bytes(array.data, header.type);
  if (header.fortran && header.shape.size() > 1)
    array.data =
        from_fortran(array.data, header.shape, static_cast<std::size_t>(array.item_size()));
  return array;
}

Array read_npy(const std::filesystem::path& path) {
  return parse_npy(read_bytes(path), path.string());
}

std::string npy_bytes(std::string_view type, std::span<const std::int64_t> shape,
                      std::span<const std::byte> data) {
  check(std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end(), "no NumPy type '{}'", type);
  const char order = item_size_of(type) == 1 ? '|' : '<';
  std::string header =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}", order, type,
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
  out.append(reinterpret_cast<const char*>(data.data()), data.size());
  return out;
}

void write_npy(const std::filesystem::path& path, const Array& array) {
  write_file(path, npy_bytes(array.type, array.shape, array.data));
}

std::vector<std::pair<std::string, Array>> read_npz(const std::filesystem::path& path) {
  const Buffer bytes = read_bytes(path);
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
  std::vector<std::pair<std::string, Array>> arrays;
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
    Buffer content(info.size);
    zip_uint64_t filled = 0;
    while (filled < info.size) {
      const zip_int64_t got = zip_fread(file.get(), content.data() + filled, info.size - filled);
      if (got <= 0) refuse(fmt::format("entry {} is damaged", info.name));
      filled += static_cast<zip_uint64_t>(got);
    }
    std::string name = info.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    Array array = parse_npy(content, fmt::format("{}, entry {}", path.string(), name));
    arrays.emplace_back(std::move(name), std::move(array));
  }
  return arrays;
}

}  // namespace nacre

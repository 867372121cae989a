// Whole files in and out. Every failure is an Error{environment} (or user, where the path itself is
// wrong) that names the path and says why.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/support/buffer.h"

namespace nacre {

std::string read_file(const std::filesystem::path& path);
AlignedBytes read_bytes(const std::filesystem::path& path);

// Writes beside `path` and renames, so that a reader sees the old file or the whole new one, and a
// full disk leaves the old one. A path that is no regular file (a pipe, a device) is written
// directly.
void write_file(const std::filesystem::path& path, std::string_view bytes);
// The same piece by piece: `content` hands each to the sink that it gets.
using Sink = std::function<void(std::span<const std::uint8_t>)>;
void write_file(const std::filesystem::path& path,
                const std::function<void(const Sink&)>& content);

// Fails as writing to `path` would, as far as that can be told before there is anything to write.
void expect_writable(const std::filesystem::path& path);

// Creates the folder and its parents.
void make_folder(const std::filesystem::path& path);

}  // namespace nacre

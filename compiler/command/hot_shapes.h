// Variants from evidence: what NACRE_RECORD_SHAPES (or nacre_session_write_shapes) wrote.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/graph/specialize.h"

namespace nacre {

// The shapes that most calls were made with, most calls first: at most `most` of them, and no more once nine calls in ten are
// covered. Lines of several runs add up. Error{user} names the line that is none.
std::vector<VariantRequest> hot_shapes(const std::filesystem::path& path, std::size_t most);

}  // namespace nacre

// An artifact as text and as JSON: what `nacre inspect` prints.
#pragma once

#include <string>

#include "formats/writer.h"

namespace nacre::formats {

// The text has one line per command, slot and guard record; numbers in it are those of the format,
// so that parts can be found in each other.
std::string dump_text(const nacre_container& verified);

// The same as one JSON object.
std::string dump_json(const nacre_container& verified);

}  // namespace nacre::formats

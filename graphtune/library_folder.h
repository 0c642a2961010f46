#pragma once

#include <filesystem>

#include "graphtune/export.h"

namespace graphtune {

/// The folder of the shared library (or program) that holds a function or an object, links
/// resolved; empty where the loader knows none.
[[nodiscard]] GRAPHTUNE_API std::filesystem::path library_folder(const void* address);

}  // namespace graphtune

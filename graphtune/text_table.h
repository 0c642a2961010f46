#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graphtune/export.h"

namespace graphtune {

enum class TableStyle : std::uint8_t {
  Simple,  ///< column names underlined with dashes
  Grid,    ///< box drawing with double lines around the head ("fancy grid")
};

/// Lays out rows of left-aligned cells. Columns are as wide as their longest cell in terminal
/// columns (East Asian wide characters count two), and two wider than their heading; line breaks
/// and control characters in cells are escaped. Missing cells are empty; throws ValueError for a
/// row with more cells than the head. No trailing newline.
[[nodiscard]] GRAPHTUNE_API std::string format_table(std::span<const std::string> header,
                                                     std::span<const std::vector<std::string>> rows,
                                                     TableStyle style);

}  // namespace graphtune

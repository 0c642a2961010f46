#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graphtune/export.h"
#include "graphtune/size_expr.h"

namespace graphtune {

/// The sizes of one class of equal axes, one for each observation.
using SizeColumn = std::vector<std::int64_t>;

/// Sums are searched among at most this many columns: beyond it too many would hold by chance.
inline constexpr std::size_t kMaxSumColumns = 64;

/// Names the columns: the smallest get symbols of their own, numbered from 1 in the order given,
/// and others become expressions of smaller ones where the observations prove it:
///   k * x   (integer k >= 2) and x + c   where x takes at least three different values,
///   x + y   where at least three observations of (x, y) are affinely independent; among many
///   columns, in which sums hold
///           by chance, more different pairs are asked for.
/// `batch` is the column of symbol 0, or null. Columns are distinct, not constant, not negative, of
/// equal length. The order of the observations does not matter. Linear in the columns, but for
/// sums.
[[nodiscard]] GRAPHTUNE_API std::vector<SizeExpr> name_columns(std::span<const SizeColumn> columns,
                                                               const SizeColumn* batch);

}  // namespace graphtune

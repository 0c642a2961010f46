#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graphtune/call_tree.h"
#include "graphtune/constant.h"
#include "graphtune/export.h"
#include "graphtune/miss.h"

namespace graphtune {

/// The constants that are built into a graph's engines. With strict mode off they are no part of
/// the graph's key, so that a call must be checked for them: an engine would go on computing with
/// the old ones. Immutable; thread safe.
class GRAPHTUNE_API FixedConstants {
 public:
  struct Item {
    Constant value;
    bool any_value = false;  ///< the result does not depend on it: only its kind has to be this
    friend bool operator==(const Item&, const Item&) = default;
  };

  FixedConstants() = default;
  explicit FixedConstants(std::vector<Item> items) : items_(std::move(items)) {}
  /// Those of a call, in canonical order. `unused`: places among them of such whose value does not
  /// matter. Throws ValueError for a place that there is not.
  explicit FixedConstants(const CallTree& tree, std::span<const std::uint32_t> unused = {});

  [[nodiscard]] const std::vector<Item>& items() const noexcept { return items_; }
  /// A miss (Constant) that names the first that differs. `tree` must have the graph's key without
  /// constants, so that its constants stand at the same places. No allocation where all are the
  /// same.
  [[nodiscard]] std::optional<Miss> check(const CallTree& tree) const;

  friend bool operator==(const FixedConstants&, const FixedConstants&) = default;

 private:
  std::vector<Item> items_;
};

/// The constants of a call in canonical order.
[[nodiscard]] GRAPHTUNE_API std::vector<Constant> canonical_constants(const CallTree& tree);

}  // namespace graphtune

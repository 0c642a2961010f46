#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graphtune/constant.h"
#include "graphtune/export.h"

namespace graphtune {

/// One step into a container: an index, a dict key, or an attribute.
struct GRAPHTUNE_API Step {
  enum class Kind : std::uint8_t { Index, Key, Attribute };
  Kind kind = Kind::Index;
  std::int64_t index = 0;  ///< Index
  Constant key;            ///< Key, Attribute (a string)

  static Step at(std::int64_t index);
  static Step of_key(Constant key);
  static Step attribute(std::string_view name);
  friend bool operator==(const Step& a, const Step& b) noexcept = default;
};

/// Which tree a locator starts in; it gives names their first word.
enum class Root : std::uint8_t { Args, Kwargs, Outputs };

/// `args`, `kwargs`, `outputs`
[[nodiscard]] GRAPHTUNE_API std::string_view root_name(Root root) noexcept;

/// Appends one step as a locator shows it, or as a name has it.
GRAPHTUNE_API void append_step(std::string& out, Step::Kind kind, std::int64_t index,
                               const Constant& key);
GRAPHTUNE_API void append_step_name(std::string& out, Step::Kind kind, std::int64_t index,
                                    const Constant& key);

/// The path from the root of a call (or of a result) to a leaf.
class GRAPHTUNE_API Locator {
 public:
  Locator() = default;
  Locator(Root root, std::vector<Step> steps) : root_(root), steps_(std::move(steps)) {}

  [[nodiscard]] Root root() const noexcept { return root_; }
  [[nodiscard]] const std::vector<Step>& steps() const noexcept { return steps_; }
  /// `[2][0]`, `['t']`, `[4].data`; quotes in keys escaped as in Python. Empty for a result that is
  /// one leaf.
  [[nodiscard]] std::string to_string() const;
  /// The same for tables and messages: what is long has its middle left out.
  [[nodiscard]] std::string shown() const;
  /// `args_2_0`, `kwargs_t3.data`, `outputs`: not yet unique (see CallTree::leaf_names).
  [[nodiscard]] std::string name() const;
  friend bool operator==(const Locator& a, const Locator& b) noexcept = default;

 private:
  Root root_ = Root::Args;
  std::vector<Step> steps_;
};

}  // namespace graphtune

#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "graphtune/export.h"

namespace graphtune {

using Json = nlohmann::json;

/// Parses a document that nobody vouches for: no duplicate keys, no deep nesting, no numbers out of
/// range. Throws ValueError that begins with `what` (a file's name, say) and has line and column.
[[nodiscard]] GRAPHTUNE_API Json parse_json(std::string_view text, std::string_view what);

/// A value within a parsed document, and where it is. Each access checks what it finds and throws
/// ValueError with the path:
/// `/nodes/3/tensor/rank: expected an integer from 0 to 64, found "x"`. Borrows the document.
class GRAPHTUNE_API JsonView {
 public:
  explicit JsonView(const Json& value, std::string path = {})
      : value_(&value), path_(std::move(path)) {}

  [[nodiscard]] const Json& json() const noexcept { return *value_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  // Objects.
  [[nodiscard]] JsonView at(std::string_view key) const;
  [[nodiscard]] std::optional<JsonView> find(std::string_view key) const;
  [[nodiscard]] std::vector<std::pair<std::string, JsonView>> members() const;
  /// Refuses any other member: a misspelt or newer one must not be overlooked.
  void allow_only(std::initializer_list<std::string_view> keys) const;

  // Arrays.
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] JsonView at(std::size_t index) const;
  [[nodiscard]] std::vector<JsonView> items() const;

  // Leaves.
  [[nodiscard]] bool is_null() const noexcept;
  [[nodiscard]] bool boolean() const;
  /// Within the bounds, which are part of the message.
  [[nodiscard]] std::int64_t integer(std::int64_t min, std::int64_t max) const;
  [[nodiscard]] double number() const;  ///< finite
  /// At most `max_size` bytes.
  [[nodiscard]] const std::string& string(std::size_t max_size = std::size_t{1} << 20) const;

  [[noreturn]] void fail(std::string_view what) const;

 private:
  [[noreturn]] void fail_expected(std::string_view what) const;

  const Json* value_;
  std::string path_;
};

}  // namespace graphtune

#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "graphtune/call_tree.h"

namespace graphtune {

/// Everything that decides a call's execution graph, as canonical bytes: structure, container
/// types, dict keys, per tensor rank + dtype + device type + layout, opaque types, and in strict
/// mode the constants. Equality compares all bytes, so a hash collision can never join two graphs.
class GRAPHTUNE_API CallKey {
 public:
  CallKey() = default;
  CallKey(const CallTree& tree, bool strict);
  explicit CallKey(std::string bytes);

  /// Recomputes in place, reusing the memory.
  void assign(const CallTree& tree, bool strict);

  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }
  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
  friend bool operator==(const CallKey& a, const CallKey& b) noexcept {
    return a.hash_ == b.hash_ && a.bytes_ == b.bytes_;
  }

 private:
  std::string bytes_;
  std::uint64_t hash_ = 0;
};

struct CallKeyHash {
  std::size_t operator()(const CallKey& key) const noexcept {
    return static_cast<std::size_t>(key.hash());
  }
};

}  // namespace graphtune

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace graphtune::python {

/// Copies of tensors' sizes that stay where they are. clear() keeps the memory of the first block,
/// which is all that most calls need.
class SizeArena {
 public:
  [[nodiscard]] const std::int64_t* copy(std::span<const std::int64_t> sizes) {
    if (blocks_.empty() || used_ + sizes.size() > kBlock) {
      blocks_.push_back(std::make_unique<std::int64_t[]>(std::max(kBlock, sizes.size())));
      used_ = 0;
    }
    std::int64_t* const target = blocks_.back().get() + used_;
    std::copy(sizes.begin(), sizes.end(), target);
    used_ += sizes.size();
    return target;
  }
  void clear() noexcept {
    blocks_.resize(std::min<std::size_t>(blocks_.size(), 1));
    used_ = 0;
  }

 private:
  static constexpr std::size_t kBlock = 256;
  std::vector<std::unique_ptr<std::int64_t[]>> blocks_;
  std::size_t used_ = 0;  // of the last block
};

}  // namespace graphtune::python

#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "graphtune/tensor.h"

namespace graphtune {

/// A list of tensors that lends its memory from the thread, so that a call which needs one for a
/// moment allocates nothing. Leases nest: an engine may make calls itself.
class TensorScratch {
 public:
  TensorScratch() {
    std::vector<std::vector<Tensor>>& free = pool();
    if (!free.empty()) {
      tensors_ = std::move(free.back());
      free.pop_back();
    }
  }
  ~TensorScratch() {
    tensors_.clear();  // nothing of the caller's is kept
    if (tensors_.capacity() <= kMaxKept && pool().size() < kMaxPooled) {
      pool().push_back(std::move(tensors_));
    }
  }
  TensorScratch(const TensorScratch&) = delete;
  TensorScratch& operator=(const TensorScratch&) = delete;

  [[nodiscard]] std::vector<Tensor>& operator*() noexcept { return tensors_; }
  [[nodiscard]] std::vector<Tensor>* operator->() noexcept { return &tensors_; }

 private:
  static constexpr std::size_t kMaxPooled = 16;
  static constexpr std::size_t kMaxKept = 1024;

  static std::vector<std::vector<Tensor>>& pool() {
    thread_local std::vector<std::vector<Tensor>> free = [] {
      std::vector<std::vector<Tensor>> empty;
      empty.reserve(kMaxPooled);
      return empty;
    }();
    return free;
  }

  std::vector<Tensor> tensors_;
};

}  // namespace graphtune

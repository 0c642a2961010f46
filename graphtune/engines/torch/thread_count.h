#pragma once

namespace graphtune {

/// Limits torch's intra-op threads while it lives, for the calling thread alone:
/// at::set_num_threads would change the whole process, eager and other engines with it. 0: no
/// limit.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) noexcept;
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int openmp_before_ = 0;
  int mkl_before_ = 0;
  bool active_ = false;
};

}  // namespace graphtune

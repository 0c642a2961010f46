#include "graphtune/engines/torch/thread_count.h"

#include <ATen/Parallel.h>

// Both come with torch's libraries, if it was built with OpenMP and MKL; there are no headers of
// them here. (MKL's name in small letters is that for Fortran, which takes a pointer.)
extern "C" {
__attribute__((weak)) void omp_set_num_threads(int threads);
__attribute__((weak)) int MKL_Set_Num_Threads_Local(int threads);
}

namespace graphtune {

ThreadCount::ThreadCount(int threads) noexcept : active_(threads > 0) {
  if (!active_) {
    return;
  }
  // Also makes torch apply its process-wide count to this thread now, not later over ours.
  openmp_before_ = at::get_num_threads();
  if (omp_set_num_threads != nullptr) {
    omp_set_num_threads(threads);
  }
  if (MKL_Set_Num_Threads_Local != nullptr) {
    mkl_before_ = MKL_Set_Num_Threads_Local(threads);
  }
}

ThreadCount::~ThreadCount() {
  if (!active_) {
    return;
  }
  if (omp_set_num_threads != nullptr) {
    omp_set_num_threads(openmp_before_);
  }
  if (MKL_Set_Num_Threads_Local != nullptr) {
    MKL_Set_Num_Threads_Local(mkl_before_);
  }
}

}  // namespace graphtune

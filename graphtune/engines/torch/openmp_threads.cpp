#include "graphtune/engines/torch/openmp_threads.h"

#include <dlfcn.h>

#include "graphtune/engines/spinning_threads.h"

namespace graphtune {
namespace {

// OpenMP 5.0, section 3.2.44: gives up the resources of this thread's pool, whose threads end. The
// next parallel region makes new ones, which takes some ten microseconds each.
using Pause = int (*)(int kind);
constexpr int kSoft = 1;  // omp_pause_soft

// Looked up, not linked: it has to be that of the OpenMP that torch uses.
Pause find_pause() noexcept {
  return reinterpret_cast<Pause>(dlsym(RTLD_DEFAULT, "omp_pause_resource_all"));
}

const Pause pause_pool = find_pause();

}  // namespace

void leave_openmp_spinning() noexcept {
  if (pause_pool != nullptr) {
    leave_spinning([]() noexcept { pause_pool(kSoft); });
  }
}

}  // namespace graphtune

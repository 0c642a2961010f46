#include "graphtune/engines/cuda_device.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace graphtune {
namespace {

// Opened by name, because the driver is no part of any build: the core needs no CUDA.
std::string ask_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return "no CUDA device: the driver's libcuda.so.1 is not there";
  }
  // Never closed: a driver does not survive it.
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
  const auto count_devices = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDeviceGetCount"));
  if (init == nullptr || count_devices == nullptr) {
    return "no CUDA device: libcuda.so.1 lacks cuInit or cuDeviceGetCount";
  }
  int count = 0;
  int status = init(0);
  status = status == 0 ? count_devices(&count) : status;
  if (status != 0) {
    return fmt::format("no CUDA device: the driver says error {}", status);
  }
  return count > 0 ? std::string() : "no CUDA device: the driver finds none";
}

}  // namespace

const std::string& cuda_unavailable_reason() {
  static const std::string& reason = *new std::string(ask_driver());
  return reason;
}

}  // namespace graphtune

#include "graphtune/library_folder.h"

#include <system_error>

#include <dlfcn.h>

namespace graphtune {

std::filesystem::path library_folder(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    return {};
  }
  std::error_code error;
  const std::filesystem::path library = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::filesystem::path() : library.parent_path();
}

}  // namespace graphtune

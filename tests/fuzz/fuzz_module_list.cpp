// A list of modules from anywhere: parsed whole or refused with BundleError, and what was parsed is
// written and read back the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "graphtune/error.h"
#include "graphtune/modules.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const std::string written = graphtune::write_module_list(graphtune::parse_module_list(text));
    if (graphtune::write_module_list(graphtune::parse_module_list(written)) != written) {
      std::abort();
    }
  } catch (const graphtune::BundleError&) {
    // What a damaged list gives.
  }
  return 0;
}

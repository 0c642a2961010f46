// A bundle's manifest from anywhere: parsed whole or refused with BundleError, and what was parsed
// is written and read back the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "graphtune/bundle.h"
#include "graphtune/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const graphtune::Bundle bundle = graphtune::parse_manifest(text);
    const std::string written = graphtune::write_manifest(bundle);
    if (graphtune::write_manifest(graphtune::parse_manifest(written)) != written) {
      std::abort();
    }
  } catch (const graphtune::BundleError&) {
    // What a damaged manifest gives.
  }
  return 0;
}

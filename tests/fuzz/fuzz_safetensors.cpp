// Any bytes as a safetensors file: an error, or tensors whose memory may be read.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "graphtune/error.h"
#include "graphtune/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace graphtune;
  TextMap metadata;
  std::vector<NamedTensor> tensors;
  try {
    tensors = parse_safetensors(std::as_bytes(std::span(data, size)), "input", &metadata);
  } catch (const BundleError&) {
    return 0;
  }
  std::size_t bytes = 0;
  std::uint8_t sum = 0;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.view().is_contiguous()) {
      std::abort();
    }
    const auto* begin = static_cast<const std::uint8_t*>(tensor.data());
    for (std::size_t i = 0; i < tensor.byte_size(); ++i) {
      sum = static_cast<std::uint8_t>(sum + begin[i]);
    }
    bytes += tensor.byte_size();
  }
  if (bytes > size) {
    std::abort();  // the tensors of a file never need more memory than the file
  }
  volatile std::uint8_t sink = sum;  // so that the reads are not removed
  (void)sink;
  return 0;
}

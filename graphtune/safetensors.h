#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graphtune/export.h"
#include "graphtune/tensor.h"

// The safetensors format (https://github.com/huggingface/safetensors#format): 8 bytes with the size
// N of the header, little endian; N bytes of JSON, {"name": {"dtype": "F32", "shape": [2, 3],
// "data_offsets": [begin, end]}, "__metadata__": {"key": "text"}}; then the bytes of the tensors,
// row-major, without gaps.

namespace graphtune {

using NamedTensor = std::pair<std::string, Tensor>;
using TextMap = std::map<std::string, std::string>;

/// Reads all tensors, in the order of the file; they share one buffer. Nothing in the file is
/// believed: sizes, offsets, gaps and overlaps, dtypes and the bytes of booleans are checked.
/// Throws BundleError that names the file and the tensor for a damaged file, Error for one that
/// can't be read.
[[nodiscard]] GRAPHTUNE_API std::vector<NamedTensor> read_safetensors(
    const std::filesystem::path& path, TextMap* metadata = nullptr);

/// The same from memory, which is copied. `what` names it in messages.
[[nodiscard]] GRAPHTUNE_API std::vector<NamedTensor> parse_safetensors(
    std::span<const std::byte> bytes, std::string_view what, TextMap* metadata = nullptr);

/// Writes the file at once or not at all. Strided tensors are made contiguous. Throws ValueError
/// that names the tensor for a name given twice or that is no UTF-8, a dtype that the format has
/// not, an undefined tensor, and one that is not on the CPU.
GRAPHTUNE_API void write_safetensors(const std::filesystem::path& path,
                                     std::span<const NamedTensor> tensors,
                                     const TextMap& metadata = {});

}  // namespace graphtune

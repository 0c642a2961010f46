#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graphtune/export.h"
#include "graphtune/tensor.h"

namespace graphtune {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Reads tensors from a safetensors file, in the order of their data. All share one buffer with the
/// file's contents.
///
/// The format (https://huggingface.co/docs/safetensors, "Format"): 8 bytes with the length N of the
/// header, little endian; N bytes of JSON, name -> {dtype, shape, data_offsets: [begin, end)}, and
/// perhaps "__metadata__"; then the data, without gaps or overlaps, row-major, little endian.
///
/// The file is not trusted: lengths, offsets, dtypes and shapes are checked before any is used.
/// Throws ValueError naming the file (or "safetensors" for bytes), the tensor and what is wrong;
/// Error when the file can't be read.
[[nodiscard]] GRAPHTUNE_API NamedTensors read_safetensors(const std::filesystem::path& path);
/// The same from memory, which is copied.
[[nodiscard]] GRAPHTUNE_API NamedTensors parse_safetensors(std::string_view bytes);

/// Writes CPU tensors of any strides. Throws ValueError for a name given twice or a dtype that the
/// format lacks, Error when the file can't be written.
GRAPHTUNE_API void write_safetensors(const std::filesystem::path& path,
                                     std::span<const std::pair<std::string, Tensor>> tensors,
                                     const std::map<std::string, std::string>& metadata = {});

}  // namespace graphtune

#pragma once

#include <optional>

#include "graphtune/dtype.h"
#include "graphtune/engines/onnxruntime/runtime.h"

namespace graphtune {

/// None for a dtype that ONNX Runtime has no element type for.
[[nodiscard]] std::optional<ONNXTensorElementDataType> onnx_type(DType dtype) noexcept;

/// A name for messages: the dtype's, or the number that ONNX has for it.
[[nodiscard]] std::string onnx_type_name(ONNXTensorElementDataType type);

}  // namespace graphtune

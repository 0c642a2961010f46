#include "graphtune/engines/onnxruntime/element_types.h"

#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace graphtune {
namespace {

constexpr std::array<std::pair<DType, ONNXTensorElementDataType>, 13> kTypes = {{
    {DType::Bool, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL},
    {DType::UInt8, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8},
    {DType::Int8, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8},
    {DType::Int16, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16},
    {DType::Int32, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32},
    {DType::Int64, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64},
    {DType::UInt16, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16},
    {DType::UInt32, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32},
    {DType::UInt64, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64},
    {DType::Float16, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16},
    {DType::BFloat16, ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16},
    {DType::Float32, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT},
    {DType::Float64, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE},
}};

}  // namespace

std::optional<ONNXTensorElementDataType> onnx_type(DType dtype) noexcept {
  for (const auto& [known, type] : kTypes) {
    if (known == dtype) {
      return type;
    }
  }
  return std::nullopt;
}

std::string onnx_type_name(ONNXTensorElementDataType type) {
  for (const auto& [dtype, known] : kTypes) {
    if (known == type) {
      return std::string(to_string(dtype));
    }
  }
  return fmt::format("ONNX element type {}", static_cast<int>(type));
}

}  // namespace graphtune

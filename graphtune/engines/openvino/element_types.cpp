#include "graphtune/engines/openvino/element_types.h"

namespace graphtune {

std::optional<ov::element::Type> openvino_type(DType dtype) noexcept {
  switch (dtype) {
    case DType::UInt8: return ov::element::u8;
    case DType::Int8: return ov::element::i8;
    case DType::Int16: return ov::element::i16;
    case DType::Int32: return ov::element::i32;
    case DType::Int64: return ov::element::i64;
    case DType::Float16: return ov::element::f16;
    case DType::Float32: return ov::element::f32;
    case DType::Float64: return ov::element::f64;
    case DType::Bool: return ov::element::boolean;
    case DType::BFloat16: return ov::element::bf16;
    case DType::Float8E5M2: return ov::element::f8e5m2;
    case DType::Float8E4M3FN: return ov::element::f8e4m3;
    case DType::UInt16: return ov::element::u16;
    case DType::UInt32: return ov::element::u32;
    case DType::UInt64: return ov::element::u64;
    default: return std::nullopt;
  }
}

bool same_elements(DType dtype, const ov::element::Type& type) noexcept {
  return openvino_type(dtype) == type || (dtype == DType::Bool && type == ov::element::u8);
}

}  // namespace graphtune

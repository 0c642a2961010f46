#pragma once

#include <cstring>
#include <type_traits>

#include "graphtune/error.h"
#include "graphtune/tensor.h"

namespace graphtune {
namespace detail {

template <typename>
inline constexpr bool kNoDType = false;

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) {
    return DType::Float32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DType::Float64;
  } else if constexpr (std::is_same_v<T, bool>) {
    return DType::Bool;
  } else if constexpr (std::is_same_v<T, std::int8_t>) {
    return DType::Int8;
  } else if constexpr (std::is_same_v<T, std::uint8_t>) {
    return DType::UInt8;
  } else if constexpr (std::is_same_v<T, std::int16_t>) {
    return DType::Int16;
  } else if constexpr (std::is_same_v<T, std::uint16_t>) {
    return DType::UInt16;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return DType::Int32;
  } else if constexpr (std::is_same_v<T, std::uint32_t>) {
    return DType::UInt32;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return DType::Int64;
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return DType::UInt64;
  } else {
    static_assert(kNoDType<T>, "no tensor element type has this C++ type");
  }
}

GRAPHTUNE_API void check_element_count(std::size_t given, const Dims& sizes);
[[noreturn]] GRAPHTUNE_API void throw_dtype_mismatch(DType actual, DType asked);

}  // namespace detail

template <typename T>
Tensor Tensor::from(std::span<const T> values, const Dims& sizes) {
  detail::check_element_count(values.size(), sizes);
  Tensor tensor = empty(detail::dtype_of<T>(), sizes);
  if (!values.empty()) {
    std::memcpy(tensor.data(), values.data(), values.size_bytes());
  }
  return tensor;
}

template <typename T>
T* Tensor::data_as() const {
  constexpr DType kAsked = detail::dtype_of<std::remove_const_t<T>>();
  if (dtype_ != kAsked) {
    detail::throw_dtype_mismatch(dtype_, kAsked);
  }
  return static_cast<T*>(data_);
}

}  // namespace graphtune

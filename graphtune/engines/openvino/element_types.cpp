#include "graphtune/engines/openvino/element_types.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace graphtune {

std::optional<ov::element::Type> openvino_type(DType dtype) noexcept {
  switch (dtype) {
    case DType::UInt8:
      return ov::element::u8;
    case DType::Int8:
      return ov::element::i8;
    case DType::Int16:
      return ov::element::i16;
    case DType::Int32:
      return ov::element::i32;
    case DType::Int64:
      return ov::element::i64;
    case DType::Float16:
      return ov::element::f16;
    case DType::Float32:
      return ov::element::f32;
    case DType::Float64:
      return ov::element::f64;
    case DType::Bool:
      return ov::element::boolean;
    case DType::BFloat16:
      return ov::element::bf16;
    case DType::Float8E5M2:
      return ov::element::f8e5m2;
    case DType::Float8E4M3FN:
      return ov::element::f8e4m3;
    case DType::UInt16:
      return ov::element::u16;
    case DType::UInt32:
      return ov::element::u32;
    case DType::UInt64:
      return ov::element::u64;
    default:
      return std::nullopt;
  }
}

bool same_elements(DType dtype, const ov::element::Type& type) noexcept {
  return openvino_type(dtype) == type || (dtype == DType::Bool && type == ov::element::u8);
}

namespace {

// Calls `use` with a null pointer to the C++ type of the elements; false for a type that C++20 has
// no arithmetic of.
template <typename Use>
bool with_type(const ov::element::Type& type, Use&& use) {
  switch (static_cast<ov::element::Type_t>(type)) {
    case ov::element::Type_t::boolean:
    case ov::element::Type_t::u8:
      use(static_cast<const std::uint8_t*>(nullptr));
      return true;
    case ov::element::Type_t::i8:
      use(static_cast<const std::int8_t*>(nullptr));
      return true;
    case ov::element::Type_t::i16:
      use(static_cast<const std::int16_t*>(nullptr));
      return true;
    case ov::element::Type_t::i32:
      use(static_cast<const std::int32_t*>(nullptr));
      return true;
    case ov::element::Type_t::i64:
      use(static_cast<const std::int64_t*>(nullptr));
      return true;
    case ov::element::Type_t::u16:
      use(static_cast<const std::uint16_t*>(nullptr));
      return true;
    case ov::element::Type_t::u32:
      use(static_cast<const std::uint32_t*>(nullptr));
      return true;
    case ov::element::Type_t::u64:
      use(static_cast<const std::uint64_t*>(nullptr));
      return true;
    case ov::element::Type_t::f32:
      use(static_cast<const float*>(nullptr));
      return true;
    case ov::element::Type_t::f16:
      use(static_cast<const ov::float16*>(nullptr));
      return true;
    case ov::element::Type_t::bf16:
      use(static_cast<const ov::bfloat16*>(nullptr));
      return true;
    default:
      return false;
  }
}

template <typename To, typename From>
To convert_element(From value) {
  if constexpr (std::is_arithmetic_v<From> && std::is_arithmetic_v<To>) {
    return static_cast<To>(value);
  } else {
    return static_cast<To>(static_cast<float>(value));
  }
}

}  // namespace

bool can_convert(const ov::element::Type& from, DType to) noexcept {
  if (same_elements(to, from)) {
    return true;
  }
  const auto ignore = [](const auto*) {};
  const std::optional<ov::element::Type> target = openvino_type(to);
  return target && with_type(from, ignore) && with_type(*target, ignore);
}

void convert_elements(const ov::element::Type& from, const void* source, DType to, void* target,
                      std::size_t count) {
  if (to == DType::Bool) {
    with_type(from, [&](const auto* type) {
      const auto* values = static_cast<decltype(type)>(source);
      std::transform(values, values + count, static_cast<std::uint8_t*>(target), [](auto value) {
        return static_cast<std::uint8_t>(static_cast<bool>(value != 0));
      });
    });
    return;
  }
  if (same_elements(to, from)) {
    std::memcpy(target, source, count * item_size(to));
    return;
  }
  with_type(from, [&](const auto* from_type) {
    with_type(*openvino_type(to), [&](const auto* to_type) {
      using From = std::remove_cvref_t<decltype(*from_type)>;
      using To = std::remove_cvref_t<decltype(*to_type)>;
      const auto* values = static_cast<const From*>(source);
      std::transform(values, values + count, static_cast<To*>(target), convert_element<To, From>);
    });
  });
}

}  // namespace graphtune

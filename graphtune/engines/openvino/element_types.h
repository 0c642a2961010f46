#pragma once

#include <cstddef>
#include <optional>

#include <openvino/core/type/element_type.hpp>

#include "graphtune/dtype.h"

namespace graphtune {

/// The OpenVINO type whose elements lie in memory as those of `dtype`; none for complex and
/// quantised types.
[[nodiscard]] std::optional<ov::element::Type> openvino_type(DType dtype) noexcept;

/// Whether a tensor of `dtype` can be handed over as it lies in memory. OpenVINO keeps booleans as
/// `boolean` or `u8`, one byte each.
[[nodiscard]] bool same_elements(DType dtype, const ov::element::Type& type) noexcept;

/// Whether convert_elements can make `to` of `from`.
[[nodiscard]] bool can_convert(const ov::element::Type& from, DType to) noexcept;

/// Copies `count` elements, each as the other type has it: OpenVINO gives int32 where the graph has
/// int64. Booleans come out as 0 or 1; in OpenVINO any byte but 0 is true.
void convert_elements(const ov::element::Type& from, const void* source, DType to, void* target,
                      std::size_t count);

}  // namespace graphtune

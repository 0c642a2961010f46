#pragma once

#include <optional>

#include <openvino/core/type/element_type.hpp>

#include "graphtune/dtype.h"

namespace graphtune {

/// The OpenVINO type whose elements lie in memory as those of `dtype`; none for complex and quantised types.
[[nodiscard]] std::optional<ov::element::Type> openvino_type(DType dtype) noexcept;

/// Whether a tensor of `dtype` can be handed over as it lies in memory. OpenVINO keeps booleans as `boolean` or `u8`, one
/// byte each.
[[nodiscard]] bool same_elements(DType dtype, const ov::element::Type& type) noexcept;

}  // namespace graphtune

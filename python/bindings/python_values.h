#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <nanobind/nanobind.h>

#include "graphtune/constant.h"
#include "graphtune/locator.h"
#include "graphtune/tensor_spec.h"

namespace graphtune::python {

/// Small values of the core as Python shows them.
[[nodiscard]] nanobind::object to_python(const ShapeEntry& entry);
[[nodiscard]] nanobind::list to_python(const std::vector<ShapeEntry>& shape);
[[nodiscard]] nanobind::list to_python(std::span<const std::int64_t> sizes);
/// The value, where a constant holds it whole; else the text that tables show.
[[nodiscard]] nanobind::object to_python(const Constant& constant);
/// ("index" | "key" | "attribute", value)
[[nodiscard]] nanobind::tuple to_python(const Step& step);
[[nodiscard]] nanobind::str to_python(std::string_view text);

/// A batch size as a user gives it. None: that of the context, if one is set. Throws TypeError and
/// ValueError that name the argument.
[[nodiscard]] std::optional<std::int64_t> batch_size_from(nanobind::handle given,
                                                          const char* argument = "batch_size");
/// The same for an argument that has to be given.
[[nodiscard]] std::int64_t required_batch_size(nanobind::handle given,
                                               const char* argument = "batch_size");
/// The batch size that `graphtune.batch_size` set in this context.
[[nodiscard]] std::optional<std::int64_t> context_batch_size();

void bind_batch_size(nanobind::module_& module);

}  // namespace graphtune::python

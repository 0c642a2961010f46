#pragma once

#include <utility>
#include <vector>

#include <nanobind/nanobind.h>

#include "bindings/object.h"
#include "graphtune/batch.h"

namespace graphtune::python {

/// A call at another batch size: (args, kwargs), the very objects where nothing changes. `kwargs`
/// may be null.
[[nodiscard]] std::pair<Object, Object> make_batch(const SampleMetadata& metadata, PyObject* args,
                                                   PyObject* kwargs, std::int64_t batch_size);

/// Adds SampleMetadata.make_batch.
void bind_batch(nanobind::module_& module);

}  // namespace graphtune::python

#pragma once

#include <filesystem>

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>

#include "bindings/tensor_access.h"

namespace graphtune::python {

// Types that say in the stub what is in them. The contents are not checked on the way in.

class TorchTensor : public nanobind::object {
  NB_OBJECT_DEFAULT(TorchTensor, nanobind::object, "torch.Tensor", is_tensor)
};
using TensorList = nanobind::typed<nanobind::list, TorchTensor>;
using TensorSequence = nanobind::typed<nanobind::sequence, TorchTensor>;
using TensorDict = nanobind::typed<nanobind::dict, nanobind::str, TorchTensor>;

using AnySequence = nanobind::typed<nanobind::sequence, nanobind::any>;
using AnyTuple = nanobind::typed<nanobind::tuple, nanobind::any, nanobind::ellipsis>;
using Args = AnyTuple;
using Kwargs = nanobind::typed<nanobind::dict, nanobind::str, nanobind::any>;

/// nanobind's own caster calls it a bare os.PathLike.
using Path = nanobind::typed<std::filesystem::path, nanobind::str>;

}  // namespace graphtune::python

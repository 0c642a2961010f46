#include "bindings/batch.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/TracerMode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include "bindings/python_values.h"
#include "bindings/rebuild.h"
#include "bindings/tensor_access.h"
#include "bindings/walk.h"
#include "bindings/walker_lease.h"
#include "graphtune/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace graphtune::python {
namespace {

/// Axes from the outermost in memory to the innermost.
std::vector<std::int64_t> memory_order(const at::Tensor& tensor) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(tensor.dim()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return tensor.stride(a) > tensor.stride(b);
  });
  return order;
}

at::Tensor select_rows(const at::Tensor& tensor, std::int64_t axis, const at::Tensor& rows) {
  if (tensor.layout() == at::kStrided) {
    return tensor.index_select(axis, rows);
  }
  if (tensor.layout() == at::kSparse) {
    return tensor.index_select(axis, rows);
  }
  if (tensor.layout() == at::kMkldnn) {
    return tensor.to_dense().index_select(axis, rows).to_mkldnn();
  }
  // The compressed layouts have no index_select of their own.
  return tensor.to_sparse().index_select(axis, rows).to_sparse(tensor.layout());
}

/// index_select whose result has its strides in the order of the given tensor's (channels_last
/// stays channels_last).
at::Tensor select_rows_in_memory_order(const at::Tensor& tensor, std::int64_t axis,
                                       const at::Tensor& rows) {
  if (tensor.layout() != at::kStrided || tensor.is_contiguous()) {
    return select_rows(tensor, axis, rows);
  }
  const std::vector<std::int64_t> order = memory_order(tensor);
  std::vector<std::int64_t> inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  return select_rows(tensor.permute(order), inverse[static_cast<std::size_t>(axis)], rows)
      .permute(inverse);
}

/// The rows of a resized axis as an index tensor. Tensors of one call mostly ask for the same ones.
class RowIndex {
 public:
  const at::Tensor& of(const AxisResize& resize, const at::Device& device) {
    const auto key = std::tuple(resize.multiplier, resize.current, resize.target);
    if (!index_.defined() || key != key_ || index_.device() != device) {
      const at::tracer::impl::NoTracerDispatchMode constant;  // in a trace
      const std::vector<std::int64_t> rows = source_rows(resize);
      const at::Tensor index =
          at::empty({static_cast<std::int64_t>(rows.size())}, at::TensorOptions().dtype(at::kLong));
      std::copy(rows.begin(), rows.end(), index.data_ptr<std::int64_t>());
      index_ = index.to(device);
      key_ = key;
    }
    return index_;
  }

 private:
  std::tuple<std::int64_t, std::int64_t, std::int64_t> key_;
  at::Tensor index_;
};

at::Tensor resize_axis(const at::Tensor& tensor, const AxisResize& resize, RowIndex& row_index) {
  const auto axis = static_cast<std::int64_t>(resize.axis);
  if (tensor.layout() == at::kStrided && resize.target <= resize.current) {
    if (resize.multiplier == 1) {
      return tensor.narrow(axis, 0, resize.target);
    }
    if (resize.target == 1) {
      return tensor.slice(axis, 0, std::nullopt, resize.current);  // the first row of each block
    }
  }
  const at::Tensor& index = row_index.of(resize, tensor.device());
  if (tensor.itemsize() == 1 && !tensor.is_quantized() &&
      at::isFloatingType(tensor.scalar_type())) {
    // The 8-bit floats have few kernels; rows are copied as bytes.
    return select_rows_in_memory_order(tensor.view(at::kByte), axis, index)
        .view(tensor.scalar_type());
  }
  return select_rows_in_memory_order(tensor, axis, index);
}

/// The rows can be copied as bytes: nothing differentiates, traces or transforms the tensor, and
/// its elements are its memory.
bool is_plain_memory(PyObject* object, TensorView& view) {
  const at::Tensor& tensor = tensor_of(object);
  return has_readable_memory(object, view) && view.device == DeviceType::Cpu &&
         item_size(view.dtype) == tensor.itemsize() &&  // not so for elements of less than a byte
         !(view.requires_grad && at::GradMode::is_enabled()) && !tensor.is_quantized() &&
         !tensor._fw_grad(0).defined() && !c10::impl::dispatch_mode_enabled() &&
         !at::tracer::impl::is_dispatch_enabled();
}

/// The plan is of these sizes: another thread may have changed a tensor since it was made.
bool fit(const TensorView& view, std::span<const AxisResize> axes) {
  return std::all_of(axes.begin(), axes.end(), [&](const AxisResize& axis) {
    return axis.axis < static_cast<std::size_t>(view.rank) &&
           view.sizes[axis.axis] == axis.multiplier * axis.current;
  });
}

at::IntArrayRef array_of(const Dims& dims) { return {dims.data(), dims.size()}; }

/// A copy of such a tensor: several times as fast as index_select, which serves all others.
at::Tensor copy_resized(const at::Tensor& tensor, const TensorView& view,
                        std::span<const AxisResize> axes) {
  const ResizedLayout layout = resized_layout(view, axes);
  at::Tensor copy = at::detail::empty_strided_cpu(array_of(layout.sizes), array_of(layout.strides),
                                                  tensor.scalar_type());
  // The tensor's own sizes may be changed while other threads run.
  const Dims sizes(view.shape());
  const Dims strides({view.strides, static_cast<std::size_t>(view.rank)});
  TensorView held = view;
  held.sizes = sizes.data();
  held.strides = strides.data();
  const nb::gil_scoped_release released;
  copy_rows(held, axes, layout.strides, copy.mutable_data_ptr());
  return copy;
}

/// Some axis has blocks to be repeated, or several blocks to be shortened, which no view can do.
bool needs_copy(std::span<const AxisResize> axes) {
  return std::any_of(axes.begin(), axes.end(), [](const AxisResize& axis) {
    return axis.target > axis.current ||
           (axis.target < axis.current && axis.multiplier > 1 && axis.target > 1);
  });
}

/// A torch tensor brought to its sizes: the very object when nothing is to do, views when blocks
/// shrink, else a copy that keeps the order of its strides. Follows autograd as torch's own
/// operations do.
Object resize(PyObject* tensor, const std::vector<AxisResize>& axes, RowIndex& row_index) {
  TensorView view;
  if (needs_copy(axes) && is_plain_memory(tensor, view) && fit(view, axes)) {
    return Object::steal(wrap(copy_resized(tensor_of(tensor), view, axes)));
  }
  at::Tensor resized = tensor_of(tensor);
  bool changed = false;
  {
    const nb::gil_scoped_release released;
    for (const AxisResize& axis : axes) {
      if (axis.current != axis.target) {
        resized = resize_axis(resized, axis, row_index);
        changed = true;
      }
    }
  }
  return changed ? Object::steal(wrap(resized)) : Object::borrow(tensor);
}

}  // namespace

std::pair<Object, Object> make_batch(const SampleMetadata& metadata, PyObject* args,
                                     PyObject* kwargs, std::int64_t batch_size) {
  const WalkerLease walker;
  walker->walk_inputs(args, kwargs);
  const BatchPlan plan = plan_batch(metadata, walker->tree(), batch_size);
  std::vector<Object> tensors(walker->tensors().begin(), walker->tensors().end());
  RowIndex row_index;
  bool changed = false;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!plan.tensors[i].empty()) {
      Object resized = resize(tensors[i].get(), plan.tensors[i], row_index);
      changed = changed || resized.get() != tensors[i].get();
      tensors[i] = std::move(resized);
    }
  }
  if (!changed) {
    return {Object::borrow(args), Object::borrow(kwargs)};
  }
  Rebuilder rebuilder(tensors);
  Object new_args = rebuilder.rebuild(args);
  Object new_kwargs = kwargs == nullptr ? Object() : rebuilder.rebuild(kwargs);
  rebuilder.finish();
  return {std::move(new_args), std::move(new_kwargs)};
}

void bind_batch(nb::module_& module) {
  nb::object metadata = module.attr("SampleMetadata");
  nb::cpp_function_def(
      [](const SampleMetadata& self, nb::handle args, nb::handle kwargs, nb::handle batch_size) {
        const Object named = check_arguments(args.ptr(), kwargs.ptr());
        auto [new_args, new_kwargs] =
            make_batch(self, args.ptr(), named.get(), required_batch_size(batch_size));
        nb::object named_result = named ? nb::steal(new_kwargs.release()) : nb::object(nb::dict());
        return nb::make_tuple(nb::steal(new_args.release()), std::move(named_result));
      },
      nb::scope(metadata), nb::name("make_batch"), nb::is_method(), "args"_a, "kwargs"_a.none(),
      "batch_size"_a.none(),
      nb::sig("def make_batch(self, args: tuple[typing.Any, ...] | list[typing.Any], kwargs: "
              "dict[str, typing.Any] | None, "
              "batch_size: int) -> "
              "tuple[typing.Any, dict[str, typing.Any]]"),
      "The call at another batch size: batch axes are shortened (views) or their rows repeated in "
      "turn, everything else "
      "stays. Containers keep their types; a tensor of the right size comes back itself.");
}

}  // namespace graphtune::python

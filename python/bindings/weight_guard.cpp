#include "bindings/weight_guard.h"

#include <string>
#include <utility>

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DefaultDtype.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings/tensor_access.h"

namespace graphtune::python {

struct WeightGuard::Watched {
  at::Tensor tensor;
  const void* data;
  std::uint32_t version;
  bool counts_versions;  // inference tensors don't

  [[nodiscard]] bool changed() const {
    const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    if (counts_versions && impl->version_counter().current_version() != version) {
      return true;
    }
    return impl->has_storage() && impl->storage().data() != data;
  }
};

class WeightGuard::Defaults {
 public:
  explicit Defaults(Object default_device)
      : function_(std::move(default_device)), dtype_(c10::get_default_dtype()), device_(device()) {}

  [[nodiscard]] bool changed() const {
    if (c10::get_default_dtype() != dtype_) {
      return true;
    }
    // A default device is a mode: without modes it is the CPU, and no function need be called.
    if (at::impl::PythonTorchFunctionTLS::stack_len() == 0 && is_cpu_) {
      return false;
    }
    const int same = PyObject_RichCompareBool(device().get(), device_.get(), Py_EQ);
    if (same < 0) {
      throw PythonError();
    }
    return same == 0;
  }

 private:
  [[nodiscard]] Object device() const {
    return Object::steal(PyObject_CallNoArgs(function_.get()));
  }

  Object function_;
  caffe2::TypeMeta dtype_;
  Object device_;
  bool is_cpu_ = nanobind::cast<std::string>(nanobind::handle(device_.get()).attr("type")) == "cpu";
};

WeightGuard::WeightGuard(const std::vector<PyObject*>& tensors, std::vector<Slot> slots,
                         const std::vector<PyObject*>& fixed_dicts, Object default_device)
    : watched_(std::make_unique<std::vector<Watched>>()), slots_(std::move(slots)) {
  if (default_device) {
    defaults_ = std::make_unique<Defaults>(std::move(default_device));
  }
  for (PyObject* dict : fixed_dicts) {
    fixed_.emplace_back(Object::borrow(dict), PyDict_Size(dict));
  }
  watched_->reserve(tensors.size());
  for (PyObject* object : tensors) {
    const at::Tensor& tensor = tensor_of(object);
    const bool counts = !tensor.is_inference();
    watched_->push_back(
        {tensor, tensor.has_storage() ? tensor.storage().data() : nullptr,
         counts ? tensor.unsafeGetTensorImpl()->version_counter().current_version() : 0, counts});
  }
}

WeightGuard::~WeightGuard() = default;

bool WeightGuard::changed() const {
  for (const Watched& watched : *watched_) {
    if (watched.changed()) {
      return true;
    }
  }
  for (const auto& [dict, size] : fixed_) {
    if (PyDict_Size(dict.get()) != size) {
      return true;
    }
  }
  for (const Slot& slot : slots_) {
    if (PyDict_GetItem(slot.dict.get(), slot.key.get()) != slot.value.get()) {
      return true;
    }
  }
  return defaults_ != nullptr && defaults_->changed();
}

}  // namespace graphtune::python

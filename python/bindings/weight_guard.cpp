#include "bindings/weight_guard.h"

#include <utility>

#include <ATen/core/Tensor.h>

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

WeightGuard::WeightGuard(const std::vector<PyObject*>& tensors, std::vector<Slot> slots,
                         const std::vector<PyObject*>& fixed_dicts)
    : watched_(std::make_unique<std::vector<Watched>>()), slots_(std::move(slots)) {
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

bool WeightGuard::changed() const noexcept {
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
  return false;
}

}  // namespace graphtune::python

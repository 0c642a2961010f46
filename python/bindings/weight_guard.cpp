#include "bindings/weight_guard.h"

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

WeightGuard::WeightGuard(const std::vector<PyObject*>& tensors)
    : watched_(std::make_unique<std::vector<Watched>>()) {
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
  return false;
}

}  // namespace graphtune::python

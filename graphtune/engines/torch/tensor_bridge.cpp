#include "graphtune/engines/torch/tensor_bridge.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>

namespace graphtune {

static_assert(static_cast<int>(DType::Float32) == static_cast<int>(at::ScalarType::Float));
static_assert(static_cast<int>(DType::Bool) == static_cast<int>(at::ScalarType::Bool));
static_assert(static_cast<int>(DType::BFloat16) == static_cast<int>(at::ScalarType::BFloat16));
static_assert(static_cast<int>(DType::UInt64) == static_cast<int>(at::ScalarType::UInt64));
static_assert(static_cast<int>(DeviceType::Cuda) == static_cast<int>(c10::DeviceType::CUDA));
static_assert(static_cast<int>(DeviceType::Mps) == static_cast<int>(c10::DeviceType::MPS));

at::Tensor borrow_as_torch(const Tensor& tensor) {
  const c10::Device device(static_cast<c10::DeviceType>(tensor.device()), tensor.device_index());
  return at::for_blob(tensor.data(), at::IntArrayRef(tensor.sizes().data(), tensor.sizes().size()))
      .options(at::TensorOptions(static_cast<at::ScalarType>(tensor.dtype())).device(device))
      .target_device(device)
      .make_tensor();
}

bool is_owned_by(const std::vector<at::Tensor>& tensors, std::size_t index) {
  const c10::Storage& storage = tensors[index].storage();
  const c10::Allocator* allocator = c10::GetAllocator(tensors[index].device().type());
  if (allocator == nullptr || storage.data_ptr().get_deleter() != allocator->raw_deleter()) {
    return false;
  }
  // Of each tensor over this memory: how often it is in the list. An interpreter may give the very
  // tensor that it keeps as a constant, so both the tensors and the memory are counted.
  std::map<const c10::TensorImpl*, std::size_t> listed;
  for (const at::Tensor& other : tensors) {
    if (other.storage().unsafeGetStorageImpl() == storage.unsafeGetStorageImpl()) {
      ++listed[other.unsafeGetTensorImpl()];
    }
  }
  return storage.use_count() <= listed.size() &&
         std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& other) {
           const auto found = listed.find(other.unsafeGetTensorImpl());
           return found == listed.end() || other.use_count() <= found->second;
         });
}

Tensor take_from_torch(at::Tensor tensor, bool owned) {
  if (tensor.is_conj() || tensor.is_neg()) {
    tensor = tensor.resolve_conj().resolve_neg();
  } else if (!owned) {
    tensor = tensor.clone();
  }
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  const c10::Device device = tensor.device();
  void* data = tensor.data_ptr();
  const auto dtype = static_cast<DType>(tensor.scalar_type());
  return {data,
          dtype,
          Dims(std::span(sizes.data(), sizes.size())),
          Dims(std::span(strides.data(), strides.size())),
          std::make_shared<at::Tensor>(std::move(tensor)),
          static_cast<DeviceType>(device.type()),
          static_cast<std::int8_t>(device.index())};
}

}  // namespace graphtune

#include "graphtune/engines/torch/tensor_bridge.h"

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

std::size_t count_sharers(const std::vector<at::Tensor>& tensors, std::size_t index) {
  const auto* storage = tensors[index].storage().unsafeGetStorageImpl();
  std::size_t count = 0;
  for (const at::Tensor& other : tensors) {
    count += other.storage().unsafeGetStorageImpl() == storage ? 1 : 0;
  }
  return count;
}

Tensor take_from_torch(at::Tensor tensor, std::size_t sharers) {
  if (tensor.is_conj() || tensor.is_neg()) {
    tensor = tensor.resolve_conj().resolve_neg();
  } else {
    const c10::Storage& storage = tensor.storage();
    const c10::Allocator* allocator = c10::GetAllocator(tensor.device().type());
    const bool owned =
        allocator != nullptr && storage.data_ptr().get_deleter() == allocator->raw_deleter();
    if (!owned || storage.use_count() > sharers) {
      tensor = tensor.clone();
    }
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

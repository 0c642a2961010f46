#include "graphtune/tensor.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graphtune/error.h"

namespace graphtune {
namespace {

// What vector instructions and the engines' kernels like best.
constexpr std::align_val_t kAlignment{64};

std::string sizes_to_string(std::span<const std::int64_t> sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

std::shared_ptr<void> allocate(std::size_t bytes) {
  // Never null, so that an empty tensor's data may be passed on like any other.
  void* data = ::operator new(std::max<std::size_t>(bytes, 1), kAlignment, std::nothrow);
  if (data == nullptr) {
    throw Error(fmt::format("there is not enough memory for a tensor of {} bytes", bytes));
  }
  return {data, [](void* memory) { ::operator delete(memory, kAlignment); }};
}

/// Sizes of 0 count as 1: they make a tensor empty, but its strides are made of the other sizes.
void check_countable(std::span<const std::int64_t> sizes, std::int64_t item) {
  std::int64_t count = item;
  for (const std::int64_t size : sizes) {
    if (size < 0) {
      throw ValueError(fmt::format("a tensor can't have the negative size {}: {}", size,
                                   sizes_to_string(sizes)));
    }
    if (__builtin_mul_overflow(count, std::max<std::int64_t>(size, 1), &count)) {
      throw ValueError(fmt::format("a tensor of sizes {} has more bytes than can be counted",
                                   sizes_to_string(sizes)));
    }
  }
}

/// The inner dimensions that lie in one run of memory, in elements, and how many outer dimensions
/// are left.
std::pair<std::int64_t, std::size_t> inner_run(std::span<const std::int64_t> sizes,
                                               std::span<const std::int64_t> strides) {
  std::int64_t run = 1;
  std::size_t outer = sizes.size();
  while (outer > 0 && (sizes[outer - 1] == 1 || strides[outer - 1] == run)) {
    --outer;
    run *= sizes[outer];
  }
  return {run, outer};
}

/// Needs at least one outer dimension: else the tensor is contiguous and no copy is made.
void copy_strided(std::byte* target, const std::byte* source, std::size_t item,
                  std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides) {
  const auto [run, outer] = inner_run(sizes, strides);
  const std::size_t run_bytes = static_cast<std::size_t>(run) * item;
  const auto signed_item = static_cast<std::int64_t>(item);
  std::vector<std::int64_t> index(outer, 0);
  std::int64_t offset = 0;  // in elements
  for (;;) {
    std::memcpy(target, source + offset * signed_item, run_bytes);
    target += run_bytes;
    std::size_t axis = outer;
    while (axis > 0) {
      --axis;
      offset += strides[axis];
      if (++index[axis] < sizes[axis]) {
        break;
      }
      offset -= strides[axis] * sizes[axis];
      index[axis] = 0;
      if (axis == 0) {
        return;
      }
    }
  }
}

}  // namespace

bool TensorView::is_contiguous() const noexcept {
  if (layout != Layout::Strided || (rank > 0 && (sizes == nullptr || strides == nullptr))) {
    return false;
  }
  const auto axes = static_cast<std::size_t>(rank);
  if (std::find(sizes, sizes + axes, 0) != sizes + axes) {
    return true;
  }
  std::int64_t expected = 1;
  for (std::size_t axis = axes; axis-- > 0;) {
    if (sizes[axis] != 1) {
      if (strides[axis] != expected) {
        return false;
      }
      expected *= sizes[axis];
    }
  }
  return true;
}

Dims::Dims(std::span<const std::int64_t> values) : size_(values.size()) {
  if (size_ > kInline) {
    heap_.assign(values.begin(), values.end());
  } else {
    std::copy(values.begin(), values.end(), inline_.begin());
  }
}

Dims::Dims(Dims&& other) noexcept
    : size_(std::exchange(other.size_, 0)), inline_(other.inline_), heap_(std::move(other.heap_)) {}

Dims& Dims::operator=(Dims&& other) noexcept {
  size_ = std::exchange(other.size_, 0);
  inline_ = other.inline_;
  heap_ = std::move(other.heap_);
  return *this;
}

bool operator==(const Dims& a, const Dims& b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

Tensor::Tensor(void* data, DType dtype, Dims sizes, Dims strides, std::shared_ptr<void> owner,
               DeviceType device, std::int8_t device_index)
    : owner_(std::move(owner)),
      data_(data),
      sizes_(std::move(sizes)),
      strides_(std::move(strides)),
      dtype_(dtype),
      device_(device),
      device_index_(device_index),
      defined_(true) {
  if (sizes_.size() != strides_.size()) {
    throw ValueError(
        fmt::format("a tensor has {} sizes but {} strides", sizes_.size(), strides_.size()));
  }
  // At least one byte an element, so that counts of elements can't overflow either.
  check_countable(sizes_.span(),
                  std::max<std::int64_t>(static_cast<std::int64_t>(item_size(dtype_)), 1));
}

Tensor Tensor::empty(DType dtype, const Dims& sizes) {
  std::shared_ptr<void> memory = allocate(contiguous_byte_size(dtype, sizes.span()));
  void* data = memory.get();
  return {data, dtype, sizes, contiguous_strides(sizes.span()), std::move(memory)};
}

Tensor Tensor::zeros(DType dtype, const Dims& sizes) {
  Tensor tensor = empty(dtype, sizes);
  std::memset(tensor.data(), 0, tensor.byte_size());
  return tensor;
}

std::int64_t Tensor::element_count() const noexcept { return view().element_count(); }

std::size_t Tensor::byte_size() const noexcept {
  return defined_ ? static_cast<std::size_t>(element_count()) * item_size(dtype_) : 0;
}

Tensor Tensor::contiguous() const {
  if (!defined_ || view().is_contiguous()) {
    return *this;
  }
  if (device_ != DeviceType::Cpu) {
    throw ValueError(fmt::format(
        "a strided tensor on {} can't be copied here: make it contiguous where it lives",
        to_string(device_)));
  }
  Tensor copy = empty(dtype_, sizes_);
  copy_strided(static_cast<std::byte*>(copy.data()), static_cast<const std::byte*>(data_),
               item_size(dtype_), sizes_.span(), strides_.span());
  return copy;
}

std::size_t contiguous_byte_size(DType dtype, std::span<const std::int64_t> sizes) {
  const std::size_t item = item_size(dtype);
  if (item == 0) {
    throw ValueError(
        fmt::format("no tensor of {} can be made: its elements are no whole number of bytes",
                    to_string(dtype)));
  }
  check_countable(sizes, static_cast<std::int64_t>(item));
  std::size_t bytes = item;
  for (const std::int64_t size : sizes) {
    bytes *= static_cast<std::size_t>(size);
  }
  return bytes;
}

Dims contiguous_strides(std::span<const std::int64_t> sizes) {
  Dims strides(sizes);
  std::int64_t stride = 1;
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    strides[axis] = stride;
    // As torch: an empty axis counts as one, so that strides never become 0.
    stride *= std::max<std::int64_t>(sizes[axis], 1);
  }
  return strides;
}

namespace detail {

void check_element_count(std::size_t given, const Dims& sizes) {
  std::size_t expected = 1;
  bool overflow = false;
  for (const std::int64_t size : sizes) {
    overflow |=
        size < 0 || __builtin_mul_overflow(expected, static_cast<std::size_t>(size), &expected);
  }
  if (overflow || expected != given) {
    throw ValueError(fmt::format("{} values given for a tensor with sizes {}", given,
                                 sizes_to_string(sizes.span())));
  }
}

void throw_dtype_mismatch(DType actual, DType asked) {
  throw TypeError(fmt::format(
      "a tensor of {} was asked for its {} data: convert it first, or ask for its own type",
      to_string(actual), to_string(asked)));
}

}  // namespace detail
}  // namespace graphtune

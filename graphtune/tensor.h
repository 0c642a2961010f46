#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "graphtune/dtype.h"
#include "graphtune/export.h"

namespace graphtune {

/// A borrowed look at a tensor, as the core needs it: no ownership, valid while the caller's tensor
/// lives. `strides` (in elements) is null when the layout is not strided, `data` may be null.
struct TensorView {
  void* data = nullptr;
  const std::int64_t* sizes = nullptr;
  const std::int64_t* strides = nullptr;
  std::int32_t rank = 0;
  DType dtype = DType::Float32;
  DeviceType device = DeviceType::Cpu;
  std::int8_t device_index = -1;
  Layout layout = Layout::Strided;
  bool requires_grad = false;

  [[nodiscard]] std::span<const std::int64_t> shape() const noexcept {
    return {sizes, sizes == nullptr ? 0 : static_cast<std::size_t>(rank)};
  }
  [[nodiscard]] std::int64_t element_count() const noexcept;
  /// Row-major and dense (sizes of 1 may have any stride, as in torch).
  [[nodiscard]] GRAPHTUNE_API bool is_contiguous() const noexcept;
};

inline std::int64_t TensorView::element_count() const noexcept {
  std::int64_t count = 1;
  for (const std::int64_t size : shape()) {
    count *= size;
  }
  return count;
}

/// Sizes or strides: a short vector of which ranks up to 6 need no allocation.
class GRAPHTUNE_API Dims {
 public:
  Dims() = default;
  Dims(std::span<const std::int64_t> values);
  Dims(std::initializer_list<std::int64_t> values)
      : Dims(std::span(values.begin(), values.size())) {}
  ~Dims() = default;
  Dims(const Dims&) = default;
  Dims& operator=(const Dims&) = default;
  Dims(Dims&& other) noexcept;  // leaves `other` empty
  Dims& operator=(Dims&& other) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const std::int64_t* data() const noexcept {
    return size_ <= kInline ? inline_.data() : heap_.data();
  }
  [[nodiscard]] std::int64_t* data() noexcept {
    return size_ <= kInline ? inline_.data() : heap_.data();
  }
  [[nodiscard]] std::int64_t operator[](std::size_t i) const noexcept { return data()[i]; }
  [[nodiscard]] std::int64_t& operator[](std::size_t i) noexcept { return data()[i]; }
  [[nodiscard]] std::span<const std::int64_t> span() const noexcept { return {data(), size_}; }
  [[nodiscard]] const std::int64_t* begin() const noexcept { return data(); }
  [[nodiscard]] const std::int64_t* end() const noexcept { return data() + size_; }
  friend GRAPHTUNE_API bool operator==(const Dims& a, const Dims& b) noexcept;

 private:
  static constexpr std::size_t kInline = 6;
  std::size_t size_ = 0;
  std::array<std::int64_t, kInline> inline_{};
  std::vector<std::int64_t> heap_;
};

/// A strided tensor of the C++ side. Copies share the data; `owner` keeps it alive (whatever engine
/// or framework it came from). Not synchronised: as with any buffer, writers and readers must
/// agree.
class GRAPHTUNE_API Tensor {
 public:
  Tensor() = default;
  /// Wraps memory that `owner` keeps alive; `strides` in elements.
  Tensor(void* data, DType dtype, Dims sizes, Dims strides, std::shared_ptr<void> owner,
         DeviceType device = DeviceType::Cpu, std::int8_t device_index = -1);

  /// A new, contiguous CPU tensor; contents undefined. Throws ValueError on a negative size or when
  /// the bytes overflow.
  static Tensor empty(DType dtype, const Dims& sizes);
  static Tensor zeros(DType dtype, const Dims& sizes);
  /// Copies `values` into a new CPU tensor of the given sizes; the counts must agree (ValueError).
  template <typename T>
  static Tensor from(std::span<const T> values, const Dims& sizes);

  [[nodiscard]] bool defined() const noexcept { return defined_; }
  [[nodiscard]] void* data() const noexcept { return data_; }
  /// Throws TypeError unless T is the dtype's C++ type.
  template <typename T>
  [[nodiscard]] T* data_as() const;
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] DeviceType device() const noexcept { return device_; }
  [[nodiscard]] std::int8_t device_index() const noexcept { return device_index_; }
  [[nodiscard]] const Dims& sizes() const noexcept { return sizes_; }
  [[nodiscard]] const Dims& strides() const noexcept { return strides_; }
  [[nodiscard]] std::int64_t element_count() const noexcept;
  [[nodiscard]] std::size_t byte_size()
      const noexcept;  ///< of the elements, when laid out contiguously
  [[nodiscard]] const std::shared_ptr<void>& owner() const noexcept { return owner_; }

  /// Points into this object: valid while it lives and is not assigned to.
  [[nodiscard]] TensorView view() const noexcept;
  /// This tensor if it is contiguous already, else a contiguous CPU copy.
  [[nodiscard]] Tensor contiguous() const;

 private:
  std::shared_ptr<void> owner_;
  void* data_ = nullptr;
  Dims sizes_;
  Dims strides_;
  DType dtype_ = DType::Float32;
  DeviceType device_ = DeviceType::Cpu;
  std::int8_t device_index_ = -1;
  bool defined_ = false;
};

inline TensorView Tensor::view() const noexcept {
  TensorView view;
  view.data = data_;
  view.sizes = sizes_.data();
  view.strides = strides_.data();
  view.rank = static_cast<std::int32_t>(sizes_.size());
  view.dtype = dtype_;
  view.device = device_;
  view.device_index = device_index_;
  return view;
}

/// Bytes of a contiguous tensor. Throws ValueError for a negative size, where bytes or strides
/// can't be counted, and for a dtype whose elements are no whole number of bytes.
[[nodiscard]] GRAPHTUNE_API std::size_t contiguous_byte_size(DType dtype,
                                                             std::span<const std::int64_t> sizes);

/// Row-major strides, in elements.
[[nodiscard]] GRAPHTUNE_API Dims contiguous_strides(std::span<const std::int64_t> sizes);

}  // namespace graphtune

#include "graphtune/tensor_inl.h"

#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "graphtune/call_tree.h"
#include "graphtune/export.h"
#include "graphtune/tensor.h"

namespace graphtune {

struct Arguments;

/// A call as it was made, in words: the kind, type and count of each container, the letters of each
/// key, the value of each constant, and dtype, device type, layout and rank of each tensor, all in
/// the caller's order.
///
/// Calls of equal words have the same CallKey, strict or not, and the same order of tensors. So a
/// router that has served a call knows the next one of its form without a CallTree (KnownForms).
/// It doesn't hold the other way round: keys in another order make another form of the same graph.
///
/// Built without allocating, meant to live on the stack of a call. What is too large or of an
/// unusual kind makes no form (is_complete() is false): such calls go by their tree.
class CallForm {
 public:
  static constexpr std::size_t kMaxWords = 512;
  static constexpr std::size_t kMaxTensors = 64;

  // Leaves the arrays as they are: a call would spend its time with clearing them.
  CallForm() {}  // NOLINT(modernize-use-equals-default,cppcoreguidelines-pro-type-member-init)

  [[nodiscard]] bool is_complete() const noexcept { return complete_; }
  /// From here on the call has no form.
  void give_up() noexcept { complete_ = false; }

  /// A container, followed by its `count` children (each after its key, where it has one). `type`
  /// is interned.
  void open(NodeKind kind, std::size_t count, const std::string* type = nullptr) noexcept {
    put(tagged(Tag::Open, static_cast<std::uint8_t>(kind), count));
    if (type != nullptr) {
      put(std::bit_cast<std::uint64_t>(type));
    }
  }
  void key(std::string_view letters) noexcept { put_text(Tag::Key, letters); }
  void none() noexcept { put(tagged(Tag::None, 0, 0)); }
  void boolean(bool value) noexcept { put(tagged(Tag::Bool, value ? 1 : 0, 0)); }
  void integer(std::int64_t value) noexcept {
    put(tagged(Tag::Int, 0, 0));
    put(static_cast<std::uint64_t>(value));
  }
  void real(double value) noexcept {
    put(tagged(Tag::Float, 0, 0));
    put(std::bit_cast<std::uint64_t>(value));
  }
  void string(std::string_view letters) noexcept { put_text(Tag::String, letters); }
  void tensor(const TensorView& view) noexcept {
    if (tensor_count_ == kMaxTensors) {
      complete_ = false;
      return;
    }
    ::new (static_cast<void*>(&tensors_[tensor_count_++ * sizeof(TensorView)])) TensorView(view);
    const auto byte = [](auto value) { return std::uint64_t{static_cast<std::uint8_t>(value)}; };
    put(byte(Tag::Tensor) | byte(view.dtype) << 8 | byte(view.device) << 16 |
        byte(view.layout) << 24 | std::uint64_t{static_cast<std::uint32_t>(view.rank)} << 32);
  }

  [[nodiscard]] std::span<const std::uint64_t> words() const noexcept {
    return {words_.data(), word_count_};
  }
  /// In the caller's order; borrowed from the call.
  [[nodiscard]] std::span<const TensorView> tensors() const noexcept {
    return {std::launder(reinterpret_cast<const TensorView*>(tensors_.data())), tensor_count_};
  }
  /// The words as bytes.
  [[nodiscard]] std::string_view bytes() const noexcept {
    return {reinterpret_cast<const char*>(words_.data()), word_count_ * sizeof(std::uint64_t)};
  }

 private:
  enum class Tag : std::uint8_t { Open, Key, None, Bool, Int, Float, String, Tensor };
  static std::uint64_t tagged(Tag tag, std::uint8_t detail, std::size_t count) noexcept {
    return std::uint64_t{static_cast<std::uint8_t>(tag)} | std::uint64_t{detail} << 8U |
           std::uint64_t{count} << 16U;
  }
  void put(std::uint64_t word) noexcept {
    if (word_count_ == kMaxWords) [[unlikely]] {
      complete_ = false;
      return;
    }
    words_[word_count_++] = word;
  }
  void put_text(Tag tag, std::string_view letters) noexcept {
    const std::size_t count = (letters.size() + 7) / 8;
    if (word_count_ + count + 1 > kMaxWords) [[unlikely]] {
      complete_ = false;
      return;
    }
    words_[word_count_++] = tagged(tag, 0, letters.size());
    if (count > 0) {
      words_[word_count_ + count - 1] = 0;  // what lies beyond the last letter
      std::memcpy(&words_[word_count_], letters.data(), letters.size());
      word_count_ += count;
    }
  }

  std::size_t word_count_ = 0;
  std::size_t tensor_count_ = 0;
  bool complete_ = true;
  std::array<std::uint64_t, kMaxWords> words_;
  // TensorViews, which would be initialised one by one in an array of theirs.
  alignas(TensorView) std::array<std::byte, kMaxTensors * sizeof(TensorView)> tensors_;
};

/// The form of a C++ call, which borrows from `arguments`; incomplete for an undefined tensor, a
/// key that is no string, and constants other than None, bool, int, float and short strings.
GRAPHTUNE_API void take_form(const Arguments& arguments, CallForm& form);

}  // namespace graphtune

#include "graphtune/size_condition.h"

#include <algorithm>
#include <array>

namespace graphtune {

bool SizeCondition::apply(Op op, std::int64_t a, std::int64_t b, std::int64_t& result) noexcept {
  switch (op) {
    case Op::Add:
      return !__builtin_add_overflow(a, b, &result);
    case Op::Subtract:
      return !__builtin_sub_overflow(a, b, &result);
    case Op::Multiply:
      return !__builtin_mul_overflow(a, b, &result);
    case Op::FloorDivide:
      if (b == -1) {  // the smallest number has no negative
        return !__builtin_sub_overflow(std::int64_t{0}, a, &result);
      }
      if (b == 0) {
        return false;
      }
      result = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
      return true;
    case Op::Modulo:
      if (b == 0) {
        return false;
      }
      result = b == -1 ? 0 : a % b;
      if (result != 0 && (result < 0) != (b < 0)) {
        result += b;
      }
      return true;
    case Op::Min:
      result = std::min(a, b);
      return true;
    case Op::Max:
      result = std::max(a, b);
      return true;
    case Op::Equal:
      result = a == b ? 1 : 0;
      return true;
    case Op::NotEqual:
      result = a != b ? 1 : 0;
      return true;
    case Op::Less:
      result = a < b ? 1 : 0;
      return true;
    case Op::LessEqual:
      result = a <= b ? 1 : 0;
      return true;
    case Op::Greater:
      result = a > b ? 1 : 0;
      return true;
    case Op::GreaterEqual:
      result = a >= b ? 1 : 0;
      return true;
    default:
      return false;
  }
}

bool SizeCondition::holds(std::span<const std::int64_t> symbols) const noexcept {
  // Not set to zero: only what was pushed is read.
  std::array<std::int64_t, kMaxStack> stack;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  std::size_t top = 0;                        // how many there are
  for (std::size_t i = 0; i < program_.size(); ++i) {
    const Instruction& instruction = program_[i];
    switch (instruction.op) {
      case Op::Constant:
        stack[top++] = instruction.value;
        break;
      case Op::Symbol:
        stack[top++] = symbols[static_cast<std::size_t>(instruction.value)];
        break;
      case Op::Negate:
        if (__builtin_sub_overflow(std::int64_t{0}, stack[top - 1], &stack[top - 1])) {
          return false;
        }
        break;
      case Op::Not:
        stack[top - 1] = stack[top - 1] == 0 ? 1 : 0;
        break;
      case Op::AndThen:
      case Op::OrElse:
        if ((stack[top - 1] != 0) == (instruction.op == Op::OrElse)) {
          i = static_cast<std::size_t>(instruction.value) - 1;
        } else {
          --top;
        }
        break;
      default:
        if (!apply(instruction.op, stack[top - 2], stack[top - 1], stack[top - 2])) {
          return false;
        }
        --top;
        break;
    }
  }
  return top == 1 && stack[0] != 0;
}

}  // namespace graphtune

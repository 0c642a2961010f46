#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "graphtune/condition_cursor.h"
#include "graphtune/size_condition.h"

namespace graphtune {

/// Recursive descent. Each rule emits its part of the program and gives its text in canonical form.
class ConditionParser {
 public:
  explicit ConditionParser(std::string_view text) : cursor_(text) {}

  SizeCondition parse() {
    if (cursor_.size() > SizeCondition::kMaxSize) {
      cursor_.fail(fmt::format("it is longer than {} bytes", SizeCondition::kMaxSize));
    }
    Part whole = parse_or();
    if (!cursor_.at_end()) {
      cursor_.fail("an operator was expected");
    }
    require_condition(whole);
    check_depth(whole.depth);
    if (whole.text.size() > SizeCondition::kMaxSize) {
      cursor_.fail(fmt::format("written out it is longer than {} bytes", SizeCondition::kMaxSize));
    }
    result_.text_ = std::move(whole.text);
    std::vector<std::uint32_t>& symbols = result_.symbols_;
    std::sort(symbols.begin(), symbols.end());
    symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
    return std::move(result_);
  }

 private:
  using Op = SizeCondition::Op;

  /// How strongly a part holds together; an operand that is weaker than its operator needs gets
  /// brackets. // and % stand below sums, so that what they divide is always seen.
  enum class Level : std::uint8_t { Or, And, Not, Compare, Divide, Sum, Product, Sign, Atom };
  struct Part {
    std::string text;
    Level level = Level::Atom;
    int depth = 0;  // as the parser counts it for this text
  };

  static bool is_condition(const Part& part) { return part.level <= Level::Compare; }

  // --- the rules, weakest first ---

  Part parse_or() {
    Part left = parse_and();
    while (cursor_.take_word("or")) {
      left = join(std::move(left), Level::Or, " or ", Op::OrElse, [this] { return parse_and(); });
    }
    return left;
  }

  Part parse_and() {
    Part left = parse_not();
    while (cursor_.take_word("and")) {
      left =
          join(std::move(left), Level::And, " and ", Op::AndThen, [this] { return parse_not(); });
    }
    return left;
  }

  template <typename Rule>
  Part join(Part left, Level level, std::string_view word, Op jump, const Rule& rule) {
    require_condition(left);
    const std::size_t from = emit_jump(jump);
    Part right = rule();
    require_condition(right);
    land(from);
    left = bracketed(std::move(left), level);
    right = bracketed(std::move(right), above(level));
    left.text.append(word).append(right.text);
    return {std::move(left.text), level, std::max(left.depth, right.depth)};
  }

  Part parse_not() {
    if (!cursor_.take_word("not")) {
      return parse_comparison();
    }
    const Nested nested(*this);
    Part part = parse_not();
    require_condition(part);
    emit(Op::Not);
    part = bracketed(std::move(part), Level::Not);
    return {"not " + part.text, Level::Not, part.depth + 1};
  }

  Part parse_comparison() {
    Part left = parse_sum();
    std::optional<std::pair<Op, std::string_view>> compare = take_comparison();
    if (!compare) {
      return left;
    }
    require_number(left);
    left = bracketed(std::move(left), Level::Divide);
    std::vector<std::size_t> jumps;
    while (compare) {
      const std::size_t begin = result_.program_.size();
      Part right = parse_sum();
      const std::size_t end = result_.program_.size();
      require_number(right);
      right = bracketed(std::move(right), Level::Divide);
      emit(compare->first);
      left.text += fmt::format(" {} {}", compare->second, right.text);
      left.depth = std::max(left.depth, right.depth);
      compare = take_comparison();
      if (compare) {
        // a < b < c is a < b and b < c: b's instructions come again. None of them jumps.
        jumps.push_back(emit_jump(Op::AndThen));
        for (std::size_t i = begin; i < end; ++i) {
          const auto again = result_.program_[i];
          emit(again.op, again.value);
        }
      }
    }
    for (const std::size_t jump : jumps) {
      land(jump);
    }
    left.level = Level::Compare;
    return left;
  }

  Part parse_sum() {
    Part left = parse_product();
    while (true) {
      if (cursor_.take("+")) {
        left = combine(std::move(left), "+", parse_product(), Op::Add);
      } else if (cursor_.take("-")) {
        left = combine(std::move(left), "-", parse_product(), Op::Subtract);
      } else {
        return left;
      }
    }
  }

  Part parse_product() {
    Part left = parse_sign();
    while (true) {
      if (cursor_.take("//")) {
        left = combine(std::move(left), " // ", parse_sign(), Op::FloorDivide);
      } else if (cursor_.take("%")) {
        left = combine(std::move(left), " % ", parse_sign(), Op::Modulo);
      } else if (cursor_.take("*")) {
        left = combine(std::move(left), "*", parse_sign(), Op::Multiply);
      } else {
        return left;
      }
    }
  }

  Part combine(Part left, std::string_view sign, Part right, Op op) {
    require_number(left);
    require_number(right);
    emit(op);
    const bool is_sum = op == Op::Add || op == Op::Subtract;
    const Level level = is_sum ? Level::Sum : op == Op::Multiply ? Level::Product : Level::Divide;
    left = bracketed(std::move(left), level == Level::Divide ? Level::Sign : level);
    right = bracketed(std::move(right), is_sum ? Level::Product : Level::Sign);
    left.text.append(sign).append(right.text);
    return {std::move(left.text), level, std::max(left.depth, right.depth)};
  }

  Part parse_sign() {
    if (!cursor_.take("-")) {
      return parse_atom();
    }
    if (cursor_.at_digit()) {
      return parse_number(true);
    }
    const Nested nested(*this);
    Part part = parse_sign();
    require_number(part);
    emit(Op::Negate);
    part = bracketed(std::move(part), Level::Sign);
    return {"-" + part.text, Level::Sign, part.depth + 1};
  }

  Part parse_atom() {
    if (cursor_.take("(")) {
      const Nested nested(*this);
      Part part = parse_or();
      cursor_.expect(")");
      return part;
    }
    if (cursor_.at_end()) {
      cursor_.fail("something is missing at the end");
    }
    if (cursor_.at_digit()) {
      return parse_number(false);
    }
    if (cursor_.take_word("min")) {
      return parse_call("min", Op::Min);
    }
    if (cursor_.take_word("max")) {
      return parse_call("max", Op::Max);
    }
    return parse_symbol();
  }

  Part parse_call(std::string_view name, Op op) {
    cursor_.expect("(");
    const Nested nested(*this);
    Part all = parse_or();
    require_number(all);
    int count = 1;
    while (cursor_.take(",")) {
      const Part next = parse_or();
      require_number(next);
      emit(op);
      all.text.append(", ").append(next.text);
      all.depth = std::max(all.depth, next.depth);
      ++count;
    }
    cursor_.expect(")");
    if (count < 2) {
      cursor_.fail(fmt::format("{} needs two values or more", name));
    }
    return {fmt::format("{}({})", name, all.text), Level::Atom, all.depth + 1};
  }

  Part parse_number(bool negative) {
    const std::string_view digits = cursor_.take_while(ConditionCursor::is_digit);
    std::uint64_t magnitude = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), magnitude);
    constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (error != std::errc() || magnitude > kLargest + (negative ? 1U : 0U)) {
      cursor_.fail(fmt::format("the number {} is too large", digits));
    }
    if (digits.size() > 1 && digits[0] == '0') {
      cursor_.fail(fmt::format("the number {} begins with 0", digits));
    }
    emit(Op::Constant, static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude));
    return {negative ? fmt::format("-{}", digits) : std::string(digits),
            negative ? Level::Sign : Level::Atom};
  }

  Part parse_symbol() {
    const std::string_view name = cursor_.take_while(ConditionCursor::is_name);
    std::uint32_t symbol = 0;
    if (name != "b") {
      std::uint32_t number = 0;
      const char* const last = name.data() + name.size();
      const bool may_be = name.size() > 1 && name[0] == 's' && (name[1] != '0' || name.size() == 2);
      const auto [end, error] = may_be ? std::from_chars(name.data() + 1, last, number)
                                       : std::from_chars_result{name.data(), std::errc()};
      if (!may_be || error != std::errc() || end != last || number >= SizeCondition::kMaxSymbol) {
        cursor_.fail("a number, b, s0, s1 …, min, max or a bracket was expected", name.size());
      }
      symbol = number + 1;
    }
    result_.symbols_.push_back(symbol);
    emit(Op::Symbol, symbol);
    return {std::string(name)};
  }

  std::optional<std::pair<Op, std::string_view>> take_comparison() {
    // The longer signs first.
    constexpr std::array<std::pair<Op, std::string_view>, 6> kSigns = {{
        {Op::Equal, "=="},
        {Op::NotEqual, "!="},
        {Op::LessEqual, "<="},
        {Op::GreaterEqual, ">="},
        {Op::Less, "<"},
        {Op::Greater, ">"},
    }};
    for (const auto& sign : kSigns) {
      if (cursor_.take(sign.second)) {
        return sign;
      }
    }
    return std::nullopt;
  }

  void require_condition(const Part& part) const {
    if (!is_condition(part)) {
      cursor_.fail(fmt::format("{} is a number where a comparison is needed",
                               ConditionCursor::shortened(part.text)));
    }
  }

  void require_number(const Part& part) const {
    if (is_condition(part)) {
      cursor_.fail(fmt::format("{} is a condition where a number is needed",
                               ConditionCursor::shortened(part.text)));
    }
  }

  static Level above(Level level) {
    return static_cast<Level>(static_cast<std::uint8_t>(level) + 1U);
  }

  Part bracketed(Part part, Level least) const {
    if (part.level >= least) {
      return part;
    }
    check_depth(part.depth + 1);
    return {fmt::format("({})", part.text), Level::Atom, part.depth + 1};
  }

  void check_depth(int depth) const {
    if (depth > SizeCondition::kMaxDepth) {
      cursor_.fail(fmt::format("it is nested deeper than {}", SizeCondition::kMaxDepth));
    }
  }

  /// One level deeper, as long as it lives.
  class Nested {
   public:
    explicit Nested(ConditionParser& parser) : parser_(parser) {
      parser.check_depth(++parser.depth_);
    }
    ~Nested() { --parser_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    ConditionParser& parser_;
  };

  // --- the program ---

  void emit(Op op, std::int64_t value = 0) {
    result_.program_.push_back({op, value});
    if (op == Op::Constant || op == Op::Symbol) {
      if (++stack_ > SizeCondition::kMaxStack) {
        cursor_.fail("it is nested too deep");
      }
    } else if (op != Op::Negate && op != Op::Not) {
      --stack_;
    }
  }

  std::size_t emit_jump(Op op) {
    emit(op);
    return result_.program_.size() - 1;
  }

  /// The jump goes to what is emitted next.
  void land(std::size_t jump) {
    result_.program_[jump].value = static_cast<std::int64_t>(result_.program_.size());
  }

  ConditionCursor cursor_;
  int depth_ = 0;
  std::size_t stack_ = 0;
  SizeCondition result_;
};

SizeCondition SizeCondition::parse(std::string_view text) { return ConditionParser(text).parse(); }

}  // namespace graphtune

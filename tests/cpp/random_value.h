#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "graphtune/value.h"

namespace graphtune {

/// Random calls and results for property tests; the same seed gives the same ones.
class RandomValue {
 public:
  explicit RandomValue(std::uint32_t seed) : random_(seed) {}

  Value value(int depth) {
    switch (below(depth > 0 ? 9 : 4)) {
      case 0:
      case 1:
        return tensor();
      case 2:
      case 3:
        return constant();
      case 4:
        return Value::list(values(depth - 1));
      case 5:
        return Value::tuple(values(depth - 1));
      case 6:
      case 7:
        return Value::dict(items(depth - 1));
      default:
        return object(depth - 1);
    }
  }

  Arguments arguments(int depth) {
    Arguments call;
    call.positional = values(depth);
    for (auto& [key, child] : items(depth)) {
      if (key.kind() == Constant::Kind::String) {
        call.named.emplace_back(key.text(), std::move(child));
      }
    }
    return call;
  }

  Tensor tensor() {
    constexpr std::array kTypes{DType::Float32, DType::Float16, DType::Int64, DType::Bool};
    std::vector<std::int64_t> sizes(below(4));
    for (std::int64_t& size : sizes) {
      size = static_cast<std::int64_t>(below(3));
    }
    return Tensor::zeros(kTypes.at(below(kTypes.size())),
                         Dims(std::span<const std::int64_t>(sizes)));
  }

  Constant constant() {
    constexpr std::array kReals{0.0, -0.0, 1.0, 0.5, 1e300};
    switch (below(8)) {
      case 0:
        return Constant::none();
      case 1:
        return Constant::boolean(below(2) == 1);
      case 2:
        return Constant::integer(static_cast<std::int64_t>(below(4)) - 1);
      case 3:
        return Constant::big_integer("0x1000000000000000" + std::to_string(below(3)));
      case 4:
        return Constant::real(kReals.at(below(kReals.size())));
      case 5:
        return Constant::string(text());
      case 6:
        return Constant::bytes(text());
      default:
        return Constant::other(below(2) == 0 ? "m.Color" : "torch.dtype", text());
    }
  }

  /// The same value with the children of every dict and object in another order.
  Value shuffled(const Value& value) {
    if (!value.is_container()) {
      return value;
    }
    Container container = value.container();
    for (auto& [step, child] : container.children) {
      child = shuffled(child);
    }
    if (container.kind == NodeKind::Dict || container.kind == NodeKind::Object) {
      std::shuffle(container.children.begin(), container.children.end(), random_);
    }
    return Value::container(std::move(container));
  }

  Arguments shuffled(const Arguments& call) {
    Arguments other = call;
    for (Value& value : other.positional) {
      value = shuffled(value);
    }
    for (auto& [name, value] : other.named) {
      value = shuffled(value);
    }
    std::shuffle(other.named.begin(), other.named.end(), random_);
    return other;
  }

  std::size_t below(std::size_t limit) { return random_() % limit; }

 private:
  std::string text() {
    constexpr std::array kTexts{"", "a", "b", "a_b", "0", "1", "1.0", "True", "None", "é"};
    const std::string text = kTexts.at(below(kTexts.size()));
    return below(20) == 0 ? text + std::string(Constant::kMaxText + below(3), 'x') : text;
  }

  std::vector<Value> values(int depth) {
    std::vector<Value> values(below(4));
    for (Value& child : values) {
      child = value(depth);
    }
    return values;
  }

  std::vector<std::pair<Constant, Value>> items(int depth) {
    std::vector<std::pair<Constant, Value>> items;
    for (std::size_t i = below(5); i > 0; --i) {
      const Constant key = below(2) == 0 ? Constant::string(text()) : constant();
      const auto same = [&](const auto& item) { return item.first == key; };
      if (std::none_of(items.begin(), items.end(), same)) {
        items.emplace_back(key, value(depth));
      }
    }
    return items;
  }

  Value object(int depth) {
    std::vector<std::pair<Step, Value>> children;
    for (auto& [key, child] : items(depth)) {
      children.emplace_back(key.kind() == Constant::Kind::String && below(2) == 0
                                ? Step::attribute(key.text())
                                : Step::of_key(key),
                            std::move(child));
    }
    return Value::object(below(2) == 0 ? "m.Output" : "collections.OrderedDict",
                         std::move(children));
  }

  std::mt19937 random_;
};

}  // namespace graphtune

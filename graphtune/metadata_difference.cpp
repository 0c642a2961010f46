// Why two samples are of different execution graphs.
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "graphtune/sample_metadata.h"
#include "graphtune/utf8.h"

namespace graphtune {
namespace {

/// A tree that is read in canonical order.
class Reader {
 public:
  explicit Reader(const CallTree& tree) : tree_(tree) {}

  [[nodiscard]] std::uint32_t id(std::uint32_t position) const { return tree_.node_at(position); }
  [[nodiscard]] const Node& node(std::uint32_t position) const {
    return tree_.nodes()[id(position)];
  }
  /// Position after the subtree at `position`: it is as long as in the caller's order.
  [[nodiscard]] std::uint32_t after(std::uint32_t position) const {
    return position + node(position).end - id(position);
  }
  [[nodiscard]] Step step(std::uint32_t position) const { return tree_.step_of(id(position)); }
  /// "['x']"; the root of a result is "the result".
  [[nodiscard]] std::string place(std::uint32_t position) const {
    const std::string text = tree_.locator_of(id(position)).shown();
    return text.empty() ? "the result" : text;
  }

  [[nodiscard]] std::string description(std::uint32_t position) const {
    const Node& n = node(position);
    switch (n.kind) {
      case NodeKind::Tensor:
        return "a tensor";
      case NodeKind::Constant:
        return shorten_middle(tree_.constants()[n.leaf].repr());
      case NodeKind::List:
        return "a list";
      case NodeKind::Tuple:
        return "a tuple";
      case NodeKind::Dict:
        return "a dict";
      case NodeKind::Opaque:
      case NodeKind::Object:
        break;
    }
    return fmt::format("an object of class {}", *n.type);
  }

  [[nodiscard]] const TensorView& tensor(std::uint32_t position) const {
    return tree_.tensors()[node(position).leaf];
  }
  [[nodiscard]] const Constant& constant(std::uint32_t position) const {
    return tree_.constants()[node(position).leaf];
  }

 private:
  const CallTree& tree_;
};

bool is_before(const Step& a, const Step& b) {
  if (a.kind != b.kind) {
    return a.kind < b.kind;
  }
  return a.kind == Step::Kind::Index ? a.index < b.index : a.key < b.key;
}

/// How two leaves differ: "rank 2, here 3". Empty when they don't.
std::string tensor_difference(const TensorView& known, const TensorView& given) {
  const auto differs = [](std::string_view what, auto a, auto b) {
    return fmt::format("has {} {}, here {}", what, a, b);
  };
  if (known.rank != given.rank) {
    return differs("rank", known.rank, given.rank);
  }
  if (known.dtype != given.dtype) {
    return differs("dtype", to_string(known.dtype), to_string(given.dtype));
  }
  if (known.device != given.device) {
    return differs("device", to_string(known.device), to_string(given.device));
  }
  return known.layout == given.layout
             ? ""
             : differs("layout", to_string(known.layout), to_string(given.layout));
}

std::string constant_difference(const Constant& known, const Constant& given) {
  if (known == given) {
    return {};
  }
  const bool same_type = known.type_name() == given.type_name();
  const auto text = [same_type](const Constant& constant) {
    const std::string shown = shorten_middle(constant.repr());
    return same_type ? shown : fmt::format("{} ({})", shown, constant.type_name());
  };
  return fmt::format("is {}, here {}", text(known), text(given));
}

class Comparison {
 public:
  Comparison(const SampleMetadata& known, const SampleMetadata& given)
      : a_(known.tree()),
        b_(given.tree()),
        node_count_(known.tree().nodes().size()),
        roots_(known.tree().kind() == CallTree::Kind::Inputs ? 2 : 1),
        with_constants_(known.strict() && given.strict()) {}

  /// Both trees are walked side by side: as long as nothing differs, the same positions hold the
  /// same places.
  [[nodiscard]] std::optional<std::string> find() const {
    const std::uint32_t named_root = roots_ == 2 ? a_.after(0) : 0;
    for (std::uint32_t position = 0; position < node_count_; ++position) {
      const bool is_root = roots_ == 2 && (position == 0 || position == named_root);
      if (auto difference = is_root ? compare_arguments(position) : compare_nodes(position)) {
        return difference;
      }
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] std::optional<std::string> compare_arguments(std::uint32_t position) const {
    const std::uint32_t known = a_.node(position).child_count;
    const std::uint32_t given = b_.node(position).child_count;
    if (position == 0 && known != given) {
      return fmt::format("{} positional argument{}, here {}", known, known == 1 ? "" : "s", given);
    }
    return compare_children(position, "argument ");
  }

  [[nodiscard]] std::optional<std::string> compare_nodes(std::uint32_t position) const {
    const Node& known = a_.node(position);
    const Node& given = b_.node(position);
    const bool same_type =
        known.type == given.type ||
        (known.type != nullptr && given.type != nullptr && *known.type == *given.type);
    if (known.kind != given.kind || !same_type) {
      return fmt::format("{} is {}, here {}", a_.place(position), a_.description(position),
                         b_.description(position));
    }
    std::string difference;
    switch (known.kind) {
      case NodeKind::Tensor:
        difference = tensor_difference(a_.tensor(position), b_.tensor(position));
        break;
      case NodeKind::Constant:
        if (with_constants_) {
          difference = constant_difference(a_.constant(position), b_.constant(position));
        }
        break;
      case NodeKind::Opaque:
        break;
      case NodeKind::List:
      case NodeKind::Tuple:
        if (known.child_count != given.child_count) {
          difference = fmt::format("has {} item{}, here {}", known.child_count,
                                   known.child_count == 1 ? "" : "s", given.child_count);
        }
        break;
      case NodeKind::Dict:
      case NodeKind::Object:
        return compare_children(position, "");
    }
    if (difference.empty()) {
      return std::nullopt;
    }
    const char* what = known.kind == NodeKind::Tensor ? "tensor " : "";
    return fmt::format("{}{} {}", what, a_.place(position), difference);
  }

  /// Children stand in the order of their steps: the smaller one of two different steps is missing
  /// on the other side.
  [[nodiscard]] std::optional<std::string> compare_children(std::uint32_t position,
                                                            std::string_view what) const {
    std::uint32_t i = position + 1;
    std::uint32_t j = position + 1;
    const std::uint32_t i_end = a_.after(position);
    const std::uint32_t j_end = b_.after(position);
    while (i < i_end && j < j_end && a_.step(i) == b_.step(j)) {
      i = a_.after(i);
      j = b_.after(j);
    }
    if (i == i_end && j == j_end) {
      return std::nullopt;
    }
    if (j == j_end || (i < i_end && is_before(a_.step(i), b_.step(j)))) {
      return fmt::format("{}{} is missing here", what, a_.place(i));
    }
    return fmt::format("{}{} is new here", what, b_.place(j));
  }

  Reader a_;
  Reader b_;
  std::size_t node_count_;
  int roots_;
  bool with_constants_;
};

}  // namespace

std::string describe_difference(const SampleMetadata& known, const SampleMetadata& given) {
  if (known == given) {
    return {};
  }
  if (known.tree().kind() != given.tree().kind()) {
    return known.tree().kind() == CallTree::Kind::Inputs
               ? "one is of inputs, the other of a result"
               : "one is of a result, the other of inputs";
  }
  if (auto difference = Comparison(known, given).find()) {
    return *difference;
  }
  return known.strict() ? "constants were recorded (strict mode), here they were not"
                        : "constants were not recorded, here they were (strict mode)";
}

}  // namespace graphtune

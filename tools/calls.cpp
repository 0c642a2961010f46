#include "calls.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "commands.h"
#include "graphtune/call_key.h"
#include "graphtune/error.h"
#include "graphtune/tensor_spec.h"

namespace graphtune::tools {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 9 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::size_t to_number(std::string_view text) {
  std::size_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// `text` without `prefix`, if it has it.
std::string_view without_prefix(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

/// How a leaf may be called in a file: its name, that without its root, its locator.
std::set<std::string> spellings(const std::string& name, const Locator& locator) {
  const std::string_view root = locator.root() == Root::Args ? "args_" : "kwargs_";
  return {name, std::string(without_prefix(name, root)), locator.to_string()};
}

/// The tensors of a graph's call, in the caller's order, taken from `given`; null when the names
/// are not those of its leaves.
std::optional<std::vector<Tensor>> match_leaves(const CallTree& tree, const NamedTensors& given) {
  const std::vector<std::string> names = tree.leaf_names().tensors;
  const std::vector<Locator> locators = tree.tensor_locators();
  if (names.size() != given.size()) {
    return std::nullopt;
  }
  std::vector<Tensor> tensors;
  std::set<const Tensor*> taken;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::set<std::string> accepted = spellings(names[i], locators[i]);
    const auto found = std::find_if(given.begin(), given.end(), [&](const auto& tensor) {
      return accepted.count(tensor.first) != 0 && taken.count(&tensor.second) == 0;
    });
    if (found == given.end()) {
      return std::nullopt;
    }
    taken.insert(&found->second);
    tensors.push_back(found->second);
  }
  return tensors;
}

std::vector<Tensor> in_canonical_order(const CallTree& tree, const std::vector<Tensor>& tensors) {
  if (tree.tensor_order().empty()) {
    return tensors;
  }
  std::vector<Tensor> ordered;
  for (const std::uint32_t index : tree.tensor_order()) {
    ordered.push_back(tensors[index]);
  }
  return ordered;
}

/// Names as parameters and positions: "mask", "kwargs_mask", "0", "args_0".
std::optional<Arguments> as_parameters(const Signature& signature, const NamedTensors& given) {
  const auto is_parameter = [&](std::string_view name) {
    return std::any_of(signature.parameters().begin(), signature.parameters().end(),
                       [&](const Parameter& parameter) { return parameter.name == name; });
  };
  std::map<std::size_t, Value> positional;
  Arguments arguments;
  for (const auto& [name, tensor] : given) {
    const std::string_view position = without_prefix(name, "args_");
    if (is_number(position)) {
      positional.emplace(to_number(position), tensor);
    } else if (!is_parameter(name) && is_parameter(without_prefix(name, "kwargs_"))) {
      arguments.named.emplace_back(without_prefix(name, "kwargs_"), tensor);
    } else {
      arguments.named.emplace_back(name, tensor);
    }
  }
  for (auto& [position, value] : positional) {
    if (position != arguments.positional.size()) {
      return std::nullopt;  // a gap
    }
    arguments.positional.push_back(std::move(value));
  }
  return arguments;
}

std::string known_names(const Bundle& bundle) {
  std::string text;
  for (const StoredGraph& graph : bundle.graphs) {
    std::vector<std::string> names;
    const CallTree& tree = graph.spec.input_spec().tree();
    const std::vector<std::string> leaves = tree.leaf_names().tensors;
    const std::vector<Locator> locators = tree.tensor_locators();
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      names.emplace_back(
          without_prefix(leaves[i], locators[i].root() == Root::Args ? "args_" : "kwargs_"));
    }
    text += fmt::format("\n  {}: {}", graph.spec.name(), fmt::join(names, ", "));
  }
  return text;
}

std::string names_text(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Arguments of the first graph whose leaves have these names, best one whose types fit too.
std::optional<Arguments> from_graphs(const Bundle& bundle, const NamedTensors& given,
                                     const std::string& graph_name) {
  std::optional<Arguments> first;
  for (const StoredGraph& graph : bundle.graphs) {
    if (!graph_name.empty() && graph.spec.name() != graph_name) {
      continue;
    }
    const CallTree& tree = graph.spec.input_spec().tree();
    const auto tensors = match_leaves(tree, given);
    if (!tensors || !tree.opaques().empty()) {
      continue;
    }
    Arguments arguments = unflatten_arguments(tree, in_canonical_order(tree, *tensors));
    CallTree call;
    flatten(arguments, call);
    if (CallKey(call, bundle.strict) == graph.spec.input_spec().key()) {
      return arguments;
    }
    if (!first) {
      first = std::move(arguments);
    }
  }
  return first;
}

NamedCall make_call(std::string number, NamedTensors given, const Bundle& bundle,
                    const std::string& graph_name) {
  std::optional<Arguments> arguments = from_graphs(bundle, given, graph_name);
  if (!arguments && graph_name.empty()) {
    arguments = as_parameters(bundle.signature, given);
    const bool named_by_place = std::any_of(given.begin(), given.end(), [](const auto& tensor) {
      return tensor.first.starts_with("[");
    });
    if (named_by_place) {
      arguments.reset();
    }
  }
  if (!arguments) {
    throw ValueError(fmt::format("{}no graph{} takes tensors named {}. The graphs take:{}",
                                 number.empty() ? "" : fmt::format("call {}: ", number),
                                 graph_name.empty() ? "" : " of this name", names_text(given),
                                 known_names(bundle)));
  }
  return {std::move(number), std::move(*arguments), std::move(given)};
}

}  // namespace

std::vector<NamedCall> make_calls(const NamedTensors& tensors, const Bundle& bundle,
                                  const std::string& graph) {
  const bool known = graph.empty() || std::any_of(bundle.graphs.begin(), bundle.graphs.end(),
                                                  [&](const StoredGraph& stored) {
                                                    return stored.spec.name() == graph;
                                                  });
  if (!known) {
    throw ValueError(
        fmt::format("there is no graph {}. The graphs take:{}", graph, known_names(bundle)));
  }
  std::map<std::size_t, NamedTensors> numbered;
  NamedTensors single;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t slash = name.find('/');
    const std::string_view number = std::string_view(name).substr(0, slash);
    if (slash != std::string::npos && is_number(number)) {
      numbered[to_number(number)].emplace_back(name.substr(slash + 1), tensor);
    } else {
      single.emplace_back(name, tensor);
    }
  }
  if (!numbered.empty() && !single.empty()) {
    throw ValueError(fmt::format(
        "some tensors have the number of a call, as in '0/input_ids', but '{}' has none",
        single.front().first));
  }
  std::vector<NamedCall> calls;
  if (!single.empty()) {
    calls.push_back(make_call({}, std::move(single), bundle, graph));
  }
  for (auto& [number, inputs] : numbered) {
    calls.push_back(make_call(std::to_string(number), std::move(inputs), bundle, graph));
  }
  if (calls.empty()) {
    throw ValueError("the file holds no tensor");
  }
  return calls;
}

NamedTensors name_results(const Value& result) {
  CallTree tree(CallTree::Kind::Result);
  flatten(result, tree);
  const std::vector<std::string> names = tree.leaf_names().tensors;
  std::map<std::string_view, int> short_names;
  const auto shortened = [](std::string_view name) {
    return without_prefix(without_prefix(name, "outputs_"), "outputs.");
  };
  for (const std::string& name : names) {
    ++short_names[shortened(name)];
  }
  NamedTensors tensors;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const TensorView& view = tree.tensors()[i];
    const std::string_view short_name = shortened(names[i]);
    // Borrows the result's memory: written before that goes.
    tensors.emplace_back(
        short_names[short_name] == 1 && !short_name.empty() ? short_name : names[i],
        Tensor(view.data, view.dtype, Dims(view.shape()),
               Dims({view.strides, static_cast<std::size_t>(view.rank)}), nullptr, view.device,
               view.device_index));
  }
  return tensors;
}

std::string shapes_text(const NamedTensors& tensors) {
  std::string text;
  for (const auto& [name, tensor] : tensors) {
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", name,
                        shape_to_string(tensor.sizes().span()), to_string(tensor.dtype()));
  }
  return text;
}

std::string naming_help() {
  return "Names in a safetensors file: tensors of one call are named by parameter (input_ids), by "
         "position\n"
         "(0), by leaf (kwargs_mask, args_0) or by locator (['inputs'].input_ids). A file with "
         "several calls\n"
         "has their numbers before the names: 0/input_ids, 1/input_ids ... Constants of a call are "
         "those of\n"
         "the first graph whose tensors have these names; --graph picks another.\n"
         "Results are written likewise: 0/last_hidden_state, or without number when the call has "
         "none; the\n"
         "name is the leaf's without 'outputs_' (a result that is one tensor: 'outputs').";
}

}  // namespace graphtune::tools

#include "graphtune/signature.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "graphtune/error.h"
#include "graphtune/utf8.h"

namespace graphtune {
namespace {

using Kind = Parameter::Kind;

bool is_positional(Kind kind) {
  return kind == Kind::PositionalOnly || kind == Kind::PositionalOrKeyword;
}

bool has_name(const Arguments& arguments, std::string_view name) {
  return std::any_of(arguments.named.begin(), arguments.named.end(),
                     [&](const auto& argument) { return argument.first == name; });
}

void check_no_name_twice(const Arguments& arguments) {
  constexpr std::size_t kFew = 32;  // comparing all pairs is faster up to here
  const auto& named = arguments.named;
  const auto refuse = [](const std::string& name) {
    throw TypeError(
        fmt::format("multiple values for argument {}", shorten_middle(python_repr(name))));
  };
  if (named.size() <= kFew) {
    for (std::size_t i = 1; i < named.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (named[i].first == named[j].first) {
          refuse(named[i].first);
        }
      }
    }
    return;
  }
  std::unordered_set<std::string_view> seen;
  for (const auto& argument : named) {
    if (!seen.insert(argument.first).second) {
      refuse(argument.first);
    }
  }
}

}  // namespace

Signature::Signature()
    : Signature(
          {{"args", Kind::VarPositional, false, {}}, {"kwargs", Kind::VarKeyword, false, {}}}) {}

Signature::Signature(std::vector<Parameter> parameters) : parameters_(std::move(parameters)) {
  std::unordered_set<std::string_view> names;
  bool default_seen = false;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    if (!names.insert(parameter.name).second) {
      throw ValueError(
          fmt::format("signature: parameter {} occurs twice", python_repr(parameter.name)));
    }
    if (i > 0) {
      const Kind before = parameters_[i - 1].kind;
      const bool may_repeat = is_positional(before) || before == Kind::KeywordOnly;
      if (parameter.kind < before || (parameter.kind == before && !may_repeat)) {
        throw ValueError(fmt::format("signature: parameter {} is of a kind that cannot follow {}",
                                     python_repr(parameter.name),
                                     python_repr(parameters_[i - 1].name)));
      }
    }
    if (parameter.default_value && !parameter.has_default) {
      throw ValueError(fmt::format("signature: parameter {} has a default value but no default",
                                   python_repr(parameter.name)));
    }
    switch (parameter.kind) {
      case Kind::PositionalOnly:
      case Kind::PositionalOrKeyword:
        if (default_seen && !parameter.has_default) {
          throw ValueError(
              fmt::format("signature: parameter {} has no default but follows one that has",
                          python_repr(parameter.name)));
        }
        default_seen = parameter.has_default;
        positional_names_.push_back(intern(parameter.name));
        positional_only_ += parameter.kind == Kind::PositionalOnly ? 1 : 0;
        break;
      case Kind::VarPositional:
        var_positional_ = true;
        break;
      case Kind::KeywordOnly:
        break;
      case Kind::VarKeyword:
        var_keyword_ = true;
        break;
    }
    if (parameter.kind == Kind::PositionalOrKeyword || parameter.kind == Kind::KeywordOnly) {
      by_keyword_.emplace(parameter.name, i);
    }
  }
}

Signature::Slot Signature::place_positional(std::size_t index, std::size_t count) const {
  if (count > positional_names_.size()) {
    if (!var_positional_) {
      throw TypeError(fmt::format("too many positional arguments: {} given, at most {} taken",
                                  count, positional_names_.size()));
    }
    return {Slot::Place::Positional, nullptr};
  }
  if (index < positional_only_) {
    return {Slot::Place::Positional, nullptr};
  }
  return {Slot::Place::Keyword, positional_names_[index]};
}

const Constant* Signature::default_of(std::string_view parameter) const {
  const auto found = by_keyword_.find(parameter);
  if (found == by_keyword_.end()) {
    return nullptr;
  }
  const std::optional<Constant>& value = parameters_[found->second].default_value;
  return value ? &*value : nullptr;
}

bool Signature::equals_default(std::string_view parameter, const Value& value) const {
  if (!value.is_constant()) {
    return false;
  }
  const Constant* constant = default_of(parameter);
  return constant != nullptr && *constant == value.constant();
}

void Signature::check(const Arguments& arguments) const {
  const std::size_t count = arguments.positional.size();
  if (count > 0) {
    (void)place_positional(0, count);  // refuses too many
  }
  check_no_name_twice(arguments);

  for (const auto& [name, value] : arguments.named) {
    const auto found = by_keyword_.find(std::string_view(name));
    if (found != by_keyword_.end()) {
      if (is_positional(parameters_[found->second].kind) && found->second < count) {
        throw TypeError(
            fmt::format("multiple values for argument {}", shorten_middle(python_repr(name))));
      }
    } else if (!var_keyword_) {
      std::string known;
      for (const Parameter& parameter : parameters_) {
        if (parameter.name == name) {
          throw TypeError(
              fmt::format("{} parameter is positional only, but was passed as a keyword",
                          shorten_middle(python_repr(name))));
        }
        if (parameter.kind == Kind::PositionalOrKeyword || parameter.kind == Kind::KeywordOnly) {
          known += (known.empty() ? "" : ", ") + parameter.name;
        }
      }
      throw TypeError(fmt::format("got an unexpected keyword argument {}; {}",
                                  shorten_middle(python_repr(name)),
                                  known.empty() ? "no keyword is taken" : "known are " + known));
    }
  }

  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    const bool required = !parameter.has_default && parameter.kind != Kind::VarPositional &&
                          parameter.kind != Kind::VarKeyword;
    if (!required || (is_positional(parameter.kind) && i < count)) {
      continue;
    }
    if (parameter.kind == Kind::PositionalOnly || !has_name(arguments, parameter.name)) {
      throw TypeError(fmt::format("missing a required argument: {}", python_repr(parameter.name)));
    }
  }
}

bool Signature::is_normal(const Arguments& arguments) const {
  check(arguments);
  const std::size_t count = arguments.positional.size();
  if (count > 0 && place_positional(count - 1, count).place == Slot::Place::Keyword) {
    return false;
  }
  return std::none_of(arguments.named.begin(), arguments.named.end(), [&](const auto& argument) {
    return equals_default(argument.first, argument.second);
  });
}

Arguments Signature::normalise(Arguments arguments) const {
  if (is_normal(arguments)) {
    return arguments;
  }
  Arguments normal;
  normal.named.reserve(arguments.positional.size() + arguments.named.size());
  const std::size_t count = arguments.positional.size();
  for (std::size_t i = 0; i < count; ++i) {
    Value& value = arguments.positional[i];
    const Slot slot = place_positional(i, count);
    if (slot.place == Slot::Place::Positional) {
      normal.positional.push_back(std::move(value));
    } else if (!equals_default(*slot.name, value)) {
      normal.named.emplace_back(*slot.name, std::move(value));
    }
  }
  for (auto& [name, value] : arguments.named) {
    if (!equals_default(name, value)) {
      normal.named.emplace_back(std::move(name), std::move(value));
    }
  }
  return normal;
}

}  // namespace graphtune

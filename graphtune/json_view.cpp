#include "graphtune/json_view.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graphtune/constant.h"
#include "graphtune/error.h"
#include "graphtune/utf8.h"

namespace graphtune {
namespace {

// Nothing that graphtune writes nests deeper than a few levels.
constexpr std::size_t kMaxNesting = 64;
constexpr std::size_t kMaxShown = 40;

/// Text from a document, fit for a message.
std::string shown(std::string_view text) {
  const std::string quoted = python_repr(cut_utf8(text, kMaxShown));
  return text.size() > kMaxShown ? quoted + "…" : quoted;
}

/// Keeps the keys of all open objects, to see one that comes twice.
class DuplicateKeys {
 public:
  bool operator()(Json::parse_event_t event, const Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        if (keys_.size() >= kMaxNesting) {
          throw ValueError(fmt::format("values nest deeper than {} levels", kMaxNesting));
        }
        keys_.emplace_back();
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end:
        keys_.pop_back();
        break;
      case Json::parse_event_t::key:
        if (!keys_.back().insert(parsed.get_ref<const std::string&>()).second) {
          throw ValueError(fmt::format("an object has the member {} twice",
                                       shown(parsed.get_ref<const std::string&>())));
        }
        break;
      case Json::parse_event_t::value:
        break;
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_;  // one for each open object or array
};

bool is_plain(std::string_view key) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  };
  return key.size() <= kMaxShown && !key.empty() && std::all_of(key.begin(), key.end(), plain);
}

std::string join(const std::string& path, std::string_view key) {
  return fmt::format("{}/{}", path, is_plain(key) ? std::string(key) : shown(key));
}

std::string describe(const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return shown(value.get_ref<const std::string&>());
    default:
      return value.dump();
  }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view what) {
  try {
    DuplicateKeys check;
    return Json::parse(text.begin(), text.end(),
                       [&check](int /*depth*/, Json::parse_event_t event, const Json& parsed) {
                         return check(event, parsed);
                       });
  } catch (const Json::exception& error) {
    // Its text may quote any bytes of the document.
    const std::string quoted = python_repr(cut_utf8(error.what(), 400));
    throw ValueError(fmt::format("{} is not valid JSON: {}", what,
                                 std::string_view(quoted).substr(1, quoted.size() - 2)));
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("{} can't be used: {}", what, error.what()));
  }
}

JsonView JsonView::at(std::string_view key) const {
  if (std::optional<JsonView> member = find(key)) {
    return *std::move(member);
  }
  fail(fmt::format("the member {} is missing", shown(key)));
}

std::optional<JsonView> JsonView::find(std::string_view key) const {
  if (!value_->is_object()) {
    fail_expected("an object");
  }
  const auto member = value_->find(key);
  if (member == value_->end()) {
    return std::nullopt;
  }
  return JsonView(*member, join(path_, key));
}

std::vector<std::pair<std::string, JsonView>> JsonView::members() const {
  if (!value_->is_object()) {
    fail_expected("an object");
  }
  std::vector<std::pair<std::string, JsonView>> members;
  members.reserve(value_->size());
  for (auto member = value_->begin(); member != value_->end(); ++member) {
    members.emplace_back(member.key(), JsonView(*member, join(path_, member.key())));
  }
  return members;
}

void JsonView::allow_only(std::initializer_list<std::string_view> keys) const {
  if (!value_->is_object()) {
    fail_expected("an object");
  }
  for (auto member = value_->begin(); member != value_->end(); ++member) {
    if (std::find(keys.begin(), keys.end(), member.key()) == keys.end()) {
      fail(fmt::format("the member {} is unknown: known are {}", shown(member.key()),
                       fmt::join(keys, ", ")));
    }
  }
}

std::size_t JsonView::size() const {
  if (!value_->is_array()) {
    fail_expected("an array");
  }
  return value_->size();
}

JsonView JsonView::at(std::size_t index) const {
  if (index >= size()) {
    fail(fmt::format("the array has {} elements, there is none at {}", size(), index));
  }
  return JsonView((*value_)[index], fmt::format("{}/{}", path_, index));
}

std::vector<JsonView> JsonView::items() const {
  std::vector<JsonView> items;
  items.reserve(size());
  for (std::size_t i = 0; i < size(); ++i) {
    items.push_back(at(i));
  }
  return items;
}

bool JsonView::is_null() const noexcept { return value_->is_null(); }

bool JsonView::boolean() const {
  if (!value_->is_boolean()) {
    fail_expected("true or false");
  }
  return value_->get<bool>();
}

std::int64_t JsonView::integer(std::int64_t min, std::int64_t max) const {
  // An unsigned number may lie beyond int64; as one it would wrap around.
  const bool fits =
      value_->is_number_integer() &&
      (!value_->is_number_unsigned() || std::in_range<std::int64_t>(value_->get<std::uint64_t>()));
  if (!fits || value_->get<std::int64_t>() < min || value_->get<std::int64_t>() > max) {
    fail_expected(fmt::format("an integer from {} to {}", min, max));
  }
  return value_->get<std::int64_t>();
}

double JsonView::number() const {
  if (!value_->is_number() || !std::isfinite(value_->get<double>())) {
    fail_expected("a number");
  }
  return value_->get<double>();
}

const std::string& JsonView::string(std::size_t max_size) const {
  if (!value_->is_string()) {
    fail_expected("a string");
  }
  const auto& text = value_->get_ref<const std::string&>();
  if (text.size() > max_size) {
    fail(fmt::format("the string has {} bytes, more than the {} allowed", text.size(), max_size));
  }
  return text;
}

void JsonView::fail(std::string_view what) const {
  throw ValueError(fmt::format("{}: {}", path_.empty() ? "/" : path_, what));
}

void JsonView::fail_expected(std::string_view what) const {
  fail(fmt::format("expected {}, found {}", what, describe(*value_)));
}

}  // namespace graphtune

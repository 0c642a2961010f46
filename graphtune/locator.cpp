#include "graphtune/locator.h"

#include <charconv>

#include "graphtune/utf8.h"

namespace graphtune {
namespace {

void append_number(std::string& out, std::int64_t number) {
  char buffer[24];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr);
}

}  // namespace

Step Step::at(std::int64_t index) {
  Step step;
  step.index = index;
  return step;
}

Step Step::of_key(Constant key) {
  Step step;
  step.kind = Kind::Key;
  step.key = std::move(key);
  return step;
}

Step Step::attribute(std::string_view name) {
  Step step;
  step.kind = Kind::Attribute;
  step.key = Constant::string(name);
  return step;
}

void append_step(std::string& out, Step::Kind kind, std::int64_t index, const Constant& key) {
  switch (kind) {
    case Step::Kind::Index:
      out += '[';
      append_number(out, index);
      out += ']';
      return;
    case Step::Kind::Key:
      out += '[';
      out += key.repr();
      out += ']';
      return;
    case Step::Kind::Attribute:
      out += '.';
      out += key.text();
      return;
  }
}

void append_step_name(std::string& out, Step::Kind kind, std::int64_t index, const Constant& key) {
  switch (kind) {
    case Step::Kind::Index:
      out += '_';
      append_number(out, index);
      return;
    case Step::Kind::Key:
      out += '_';
      if (key.kind() == Constant::Kind::String && key.is_complete()) {
        out += key.text();
      } else {
        out += key.display();
      }
      return;
    case Step::Kind::Attribute:
      out += '.';
      out += key.text();
      return;
  }
}

std::string_view root_name(Root root) noexcept {
  switch (root) {
    case Root::Args:
      return "args";
    case Root::Kwargs:
      return "kwargs";
    case Root::Outputs:
      break;
  }
  return "outputs";
}

std::string Locator::to_string() const {
  std::string text;
  for (const Step& step : steps_) {
    append_step(text, step.kind, step.index, step.key);
  }
  return text;
}

std::string Locator::shown() const { return shorten_middle(to_string()); }

std::string Locator::name() const {
  std::string text(root_name(root_));
  for (const Step& step : steps_) {
    append_step_name(text, step.kind, step.index, step.key);
  }
  return text;
}

}  // namespace graphtune

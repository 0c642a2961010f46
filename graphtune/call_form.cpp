#include "graphtune/call_form.h"

#include "graphtune/value.h"

namespace graphtune {
namespace {

void add(const Constant& constant, CallForm& form) {
  switch (constant.kind()) {
    case Constant::Kind::None:
      return form.none();
    case Constant::Kind::Bool:
      return form.boolean(constant.as_bool());
    case Constant::Kind::Int:
      return form.integer(constant.as_int());
    case Constant::Kind::Float:
      return form.real(constant.as_double());
    case Constant::Kind::String:
      return constant.is_complete() ? form.string(constant.text()) : form.give_up();
    case Constant::Kind::BigInt:
    case Constant::Kind::Bytes:
    case Constant::Kind::Other:
      return form.give_up();
  }
}

/// Not deeper than CallTree::kMaxDepth calls: values are not made deeper.
void add(const Value& value, CallForm& form) {
  if (value.is_tensor()) {
    const Tensor& tensor = value.tensor();
    return tensor.defined() ? form.tensor(tensor.view()) : form.give_up();
  }
  if (value.is_constant()) {
    return add(value.constant(), form);
  }
  const Container& container = value.container();
  if (container.kind == NodeKind::Object) {
    return form.give_up();  // its children may have any steps
  }
  form.open(container.kind, container.children.size());
  for (const auto& [step, child] : container.children) {
    if (container.kind == NodeKind::Dict) {
      const bool is_text = step.key.kind() == Constant::Kind::String && step.key.is_complete();
      is_text ? form.key(step.key.text()) : form.give_up();
    }
    if (!form.is_complete()) {
      return;  // there may be much more of it
    }
    add(child, form);
  }
}

}  // namespace

void take_form(const Arguments& arguments, CallForm& form) {
  form.open(NodeKind::Tuple, arguments.positional.size());
  for (const Value& value : arguments.positional) {
    add(value, form);
  }
  form.open(NodeKind::Dict, arguments.named.size());
  for (const auto& [name, value] : arguments.named) {
    form.key(name);
    add(value, form);
  }
}

}  // namespace graphtune

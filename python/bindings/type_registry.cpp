#include "bindings/type_registry.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "bindings/tensor_access.h"
#include "graphtune/error.h"

namespace graphtune::python {
namespace {

using Types = std::unordered_map<PyTypeObject*, std::shared_ptr<const TypeInfo>>;

// Guarded by the GIL; never destroyed, because the interpreter may be gone by then.
struct Registry {
  Types types;
  Object pytree_nodes;  // torch.utils._pytree.SUPPORTED_NODES
  Py_ssize_t pytree_size = 0;
};

Registry& registry() {
  static auto* registry = new Registry;
  return *registry;
}

// Enum members and dtypes are kept encoded; a type with more objects than this is no set of
// singletons.
constexpr std::size_t kMaxSingletons = 1024;

constexpr std::array<std::pair<std::string_view, TypeKind>, 8> kKindNames{{
    {"named", TypeKind::Named},
    {"fields", TypeKind::Fields},
    {"namespace", TypeKind::Namespace},
    {"mapping", TypeKind::Mapping},
    {"sequence", TypeKind::Sequence},
    {"flattened", TypeKind::Flattened},
    {"constant", TypeKind::Constant},
    {"opaque", TypeKind::Opaque},
}};

TypeKind kind_named(PyObject* name) {
  Object memory;
  const std::string_view text = text_of(name, memory);
  for (const auto& [candidate, kind] : kKindNames) {
    if (candidate == text) {
      return kind;
    }
  }
  throw TypeError("graphtune.types.classify gave the unknown kind '" + std::string(text) + "'");
}

Object attribute(PyObject* object, const char* name) {
  return Object::steal(PyObject_GetAttrString(object, name));
}

Object call_types(const char* name, PyObject* argument) {
  return Object::steal(PyObject_CallOneArg(attribute(types_module(), name).get(), argument));
}

Object attribute_or_null(PyObject* object, const char* name) {
  Object value = attribute(object, name);
  return value.get() == Py_None ? Object() : value;
}

std::shared_ptr<const TypeInfo> classify(PyTypeObject* type) {
  auto info = std::make_shared<TypeInfo>();
  info->type = Object::borrow(reinterpret_cast<PyObject*>(type));
  info->name = intern(type_name_of(type));
  if (const TypeKind builtin = builtin_kind(type); builtin != TypeKind::Opaque) {
    info->kind = builtin;
    return info;
  }
  if (is_tensor_type(type)) {
    info->kind = TypeKind::Tensor;
    return info;
  }
  const Object entry = call_types("classify", info->type.get());
  info->kind = kind_named(attribute(entry.get(), "kind").get());
  info->flatten = attribute_or_null(entry.get(), "flatten");
  info->encode = attribute_or_null(entry.get(), "encode");
  info->rebuild = attribute_or_null(entry.get(), "rebuild");
  info->singletons = PyObject_IsTrue(attribute(entry.get(), "singletons").get()) == 1;
  const Object fields = Object::steal(PySequence_Tuple(attribute(entry.get(), "fields").get()));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fields.get()); ++i) {
    PyObject* field = PyTuple_GET_ITEM(fields.get(), i);
    Object memory;
    info->fields.push_back(Object::borrow(field));
    info->field_names.push_back(intern(text_of(field, memory)));
  }
  return info;
}

void forget_types_if_pytree_grew() {
  Registry& state = registry();
  if (!state.pytree_nodes) {
    state.pytree_nodes = attribute(types_module(), "pytree_nodes");
    state.pytree_nodes = Object::steal(PyObject_CallNoArgs(state.pytree_nodes.get()));
    if (!PyDict_Check(state.pytree_nodes.get())) {
      throw TypeError("graphtune.types.pytree_nodes gave no dict");
    }
  }
  const Py_ssize_t size = PyDict_GET_SIZE(state.pytree_nodes.get());
  if (size != state.pytree_size) {
    forget_types();
    state.pytree_size = size;
  }
}

graphtune::Constant integer_constant(PyObject* object) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) {
    return graphtune::Constant::integer(value);
  }
  // Hexadecimal: Python refuses to print more than 4300 decimal digits, and takes quadratic time
  // for it.
  const Object digits = Object::steal(PyNumber_ToBase(object, 16));
  Object memory;
  return graphtune::Constant::big_integer(text_of(digits.get(), memory));
}

/// (identity, display), or None for what is no constant after all.
bool from_encoding(const std::string& type, PyObject* encoding, graphtune::Constant& constant) {
  if (encoding == Py_None) {
    return false;
  }
  PyObject* identity = nullptr;
  PyObject* display = nullptr;
  if (PyTuple_Check(encoding) == 0) {
    throw TypeError("an encoder in graphtune.types gave neither a pair nor None for a " + type);
  }
  if (PyArg_ParseTuple(encoding, "UU", &identity, &display) == 0) {
    throw PythonError();
  }
  Object identity_memory;
  Object display_memory;
  constant = graphtune::Constant::other(type, text_of(identity, identity_memory),
                                        text_of(display, display_memory));
  return true;
}

bool encode(const TypeInfo& info, PyObject* object, graphtune::Constant& constant) {
  if (info.singletons) {
    if (const auto found = info.encoded.find(object); found != info.encoded.end()) {
      constant = found->second;
      return true;
    }
  }
  const Object encoding = Object::steal(PyObject_CallOneArg(info.encode.get(), object));
  if (!from_encoding(*info.name, encoding.get(), constant)) {
    return false;
  }
  if (info.singletons && info.encoded.size() < kMaxSingletons) {
    Py_INCREF(object);  // for ever, as its type
    info.encoded.emplace(object, constant);
  }
  return true;
}

}  // namespace

PyObject* types_module() {
  static PyObject* module = nullptr;
  if (module == nullptr) {
    module = Object::steal(PyImport_ImportModule("graphtune.types")).release();
  }
  return module;
}

std::shared_ptr<const TypeInfo> find_type(PyTypeObject* type) {
  forget_types_if_pytree_grew();
  Types& types = registry().types;
  if (const auto found = types.find(type); found != types.end()) {
    return found->second;
  }
  std::shared_ptr<const TypeInfo> info = classify(type);
  types.insert_or_assign(type, info);
  return info;
}

void forget_types() {
  Types old;
  std::swap(
      old, registry().types);  // their references are dropped when the registry is consistent again
}

bool constant_of(PyObject* object, graphtune::Constant& constant) {
  switch (builtin_kind(Py_TYPE(object))) {
    case TypeKind::None:
      constant = graphtune::Constant::none();
      return true;
    case TypeKind::Bool:
      constant = graphtune::Constant::boolean(object == Py_True);
      return true;
    case TypeKind::Int:
      constant = integer_constant(object);
      return true;
    case TypeKind::Float:
      constant = graphtune::Constant::real(PyFloat_AS_DOUBLE(object));
      return true;
    case TypeKind::String: {
      Object memory;
      constant = graphtune::Constant::string(text_of(object, memory));
      return true;
    }
    case TypeKind::Bytes:
      constant = graphtune::Constant::bytes(
          {PyBytes_AS_STRING(object), static_cast<std::size_t>(PyBytes_GET_SIZE(object))});
      return true;
    case TypeKind::List:
    case TypeKind::Tuple:
    case TypeKind::Dict:
      return false;
    default:
      break;
  }
  if (is_tensor(object)) {
    return false;
  }
  const std::shared_ptr<const TypeInfo> info = find_type(Py_TYPE(object));
  return info->kind == TypeKind::Constant && encode(*info, object, constant);
}

bool key_constant_of(PyObject* key, graphtune::Constant& constant) {
  if (constant_of(key, constant)) {
    return true;
  }
  if (PyTuple_Check(key) == 0) {
    return false;
  }
  const Object encoding = call_types("encode_tuple", key);
  return from_encoding(type_name_of(Py_TYPE(key)), encoding.get(), constant);
}

}  // namespace graphtune::python

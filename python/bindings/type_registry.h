#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "bindings/object.h"
#include "graphtune/constant.h"

namespace graphtune::python {

/// How objects of a type are walked. The builtin types whose objects the walk reads without
/// creating anything come first.
enum class TypeKind : std::uint8_t {
  None,
  Bool,
  Int,
  Float,
  String,
  Bytes,
  List,
  Tuple,
  Dict,
  Tensor,
  Named,      ///< a tuple with named fields: children by attribute
  Fields,     ///< a dataclass: the fields' attributes
  Namespace,  ///< all instance attributes (SimpleNamespace)
  Mapping,    ///< dict subclasses, UserDict, MappingProxyType …: children by key
  Sequence,   ///< subclasses of list and tuple, deque …: children by index
  Flattened,  ///< a function gives children and context: types known to torch's pytree, or
              ///< registered by the user
  Constant,   ///< a function gives the text that identifies the value
  Opaque,
};

/// What graphtune knows of one Python type.
struct TypeInfo {
  TypeKind kind = TypeKind::Opaque;
  Object type;                        ///< keeps the type alive, so that its address names no other
  const std::string* name = nullptr;  ///< interned `module.qualname`
  std::vector<Object> fields;         ///< Named, Fields: attribute names …
  std::vector<const std::string*> field_names;  ///< … interned
  Object flatten;  ///< Flattened: object -> (steps or None, children, context text or None), None:
                   ///< opaque after all
  Object encode;   ///< Constant: object -> (identity, display), None: opaque after all
  Object
      rebuild;  ///< (object, new children in walk order) -> a copy of `object` with these children
  bool singletons =
      false;  ///< Constant: few objects that live as long as the type (enum members, dtypes)
  mutable std::unordered_map<PyObject*, graphtune::Constant> encoded;  ///< of singletons
};

/// What graphtune knows of `type`: asked from graphtune.types.classify the first time. Types that
/// torch's pytree learned of since are asked for again. Throws PythonError.
[[nodiscard]] std::shared_ptr<const TypeInfo> find_type(PyTypeObject* type);

/// Forgets all types: after a type was registered.
void forget_types();

/// graphtune.types, imported the first time.
[[nodiscard]] PyObject* types_module();

/// The constant that `object` is: compared by type and value. False when it is none (a container, a
/// tensor, opaque).
[[nodiscard]] bool constant_of(PyObject* object, graphtune::Constant& constant);
/// The same for a dict's key, where tuples of constants count as well.
[[nodiscard]] bool key_constant_of(PyObject* key, graphtune::Constant& constant);

/// The kind of a builtin type; Opaque for every other.
[[nodiscard]] inline TypeKind builtin_kind(PyTypeObject* type) noexcept {
  if (type == &PyDict_Type)
    return TypeKind::Dict;
  if (type == &PyUnicode_Type)
    return TypeKind::String;
  if (type == &PyList_Type)
    return TypeKind::List;
  if (type == &PyTuple_Type)
    return TypeKind::Tuple;
  if (type == &PyLong_Type)
    return TypeKind::Int;
  if (type == Py_TYPE(Py_None))
    return TypeKind::None;
  if (type == &PyBool_Type)
    return TypeKind::Bool;
  if (type == &PyFloat_Type)
    return TypeKind::Float;
  if (type == &PyBytes_Type)
    return TypeKind::Bytes;
  return TypeKind::Opaque;
}

}  // namespace graphtune::python

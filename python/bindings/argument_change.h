#pragma once

#include <cstdint>
#include <string>

#include <nanobind/nanobind.h>

#include "bindings/walk.h"

namespace graphtune::python {

/// What a call did to the containers among its arguments: it gave them other items, or took some.
struct ArgumentChange {
  std::uint64_t key = 0;  ///< equal for two calls of one graph that change the same; 0: nothing
  std::string place;      ///< locator of the first container that was changed
  std::string type;       ///< and what it is
};

/// graphtune.argument_changes, imported the first time.
[[nodiscard]] PyObject* changes_module();
/// Whether it is a graphtune.argument_changes.Argument: the container at a node of a call.
[[nodiscard]] bool is_argument(PyObject* object);
/// The node, in canonical order.
[[nodiscard]] std::uint32_t node_of_argument(PyObject* argument);

/// Whether the call's arguments hold a container that could be changed.
[[nodiscard]] bool holds_containers(const CallTree& call);

/// Compares two walks of the same arguments, before and after the call: structure, constants and
/// which tensor is where. Sizes and values are not looked at.
[[nodiscard]] bool is_changed(const Walker& before, const Walker& after);

/// What lies between two walks that differ: its key alone, which is quick, or all of it.
[[nodiscard]] std::uint64_t key_of_change(const Walker& before, const Walker& after);
[[nodiscard]] ArgumentChange describe_change(const Walker& before, const Walker& after);

/// Locators of a container that the call holds twice, which changes at both places; empty if it
/// holds none. The walk must have kept the containers.
[[nodiscard]] std::string find_shared_container(const Walker& call);

/// ArgumentChanges and call_containers.
void bind_argument_changes(nanobind::module_& module);

}  // namespace graphtune::python

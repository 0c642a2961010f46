#include "bindings/serving.h"

#include <algorithm>
#include <array>
#include <vector>

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/TracerMode.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include "bindings/errors.h"
#include "bindings/object.h"
#include "bindings/recording.h"
#include "bindings/stub_types.h"
#include "bindings/tuned_router.h"
#include "graphtune/engines/torch/openmp_threads.h"
#include "graphtune/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace graphtune::python {
namespace {

/// What surrounds a call and keeps it from the quick way. Made once, lives as long as the process.
class Surroundings {
 public:
  /// `module_class`: nn.Module, whose call is to stay the one that it has now. `mode`: a ContextVar
  /// that is None where modules serve. `hooks`: dicts that are empty where no hook is to run around
  /// each module. `states`: (dict, key, value) that are as given where nothing is traced or
  /// transformed. `function_modes`: gives whether a TorchFunctionMode changes what functions do.
  Surroundings(const nb::object& module_class, const nb::object& mode, const AnySequence& hooks,
               const AnySequence& states, const nb::object& function_modes)
      : module_class_(Object::borrow(module_class.ptr())),
        call_(Object::borrow(own_call())),
        mode_(Object::borrow(mode.ptr())),
        function_modes_(Object::borrow(function_modes.ptr())) {
    for (const nb::handle dict : hooks) {
      if (!PyDict_Check(dict.ptr())) {
        throw TypeError("hooks must be dicts");
      }
      hooks_.push_back(Object::borrow(dict.ptr()));
    }
    for (const nb::handle state : states) {
      const auto parts = nb::cast<nb::tuple>(state);
      states_.push_back({Object::borrow(parts[0].ptr()), Object::borrow(parts[1].ptr()),
                         Object::borrow(parts[2].ptr())});
    }
  }

  /// The call is a plain one: no mode, and not transformed.
  [[nodiscard]] bool are_plain() const {
    PyObject* mode = nullptr;
    if (PyContextVar_Get(mode_.get(), Py_None, &mode) != 0) {
      throw PythonError();
    }
    Py_DECREF(mode);
    return mode == Py_None && !are_transforming();
  }

  /// A call computes otherwise than its module says: it is traced, there are modes of torch's,
  /// hooks around all modules, autocast or forward-mode differentiation.
  [[nodiscard]] bool are_transforming() const {
    return at::tracer::impl::is_dispatch_enabled() || c10::impl::dispatch_mode_enabled() ||
           at::autocast::is_autocast_enabled(at::kCPU) || own_call() != call_.get() ||
           std::any_of(hooks_.begin(), hooks_.end(),
                       [](const Object& dict) { return PyDict_GET_SIZE(dict.get()) != 0; }) ||
           std::any_of(states_.begin(), states_.end(),
                       [](const State& state) {
                         return PyDict_GetItem(state.dict.get(), state.key.get()) !=
                                state.value.get();
                       }) ||
           have_function_modes();
  }

  [[nodiscard]] PyObject* module_class() const noexcept { return module_class_.get(); }

 private:
  [[nodiscard]] PyObject* own_call() const {
    static PyObject* const name = PyUnicode_InternFromString("__call__");
    return PyDict_GetItem(reinterpret_cast<PyTypeObject*>(module_class_.get())->tp_dict, name);
  }

  [[nodiscard]] bool have_function_modes() const {
    if (at::impl::PythonTorchFunctionTLS::stack_len() == 0) {
      return false;
    }
    const Object found = Object::steal(PyObject_CallNoArgs(function_modes_.get()));
    return found.get() == Py_True;
  }

  struct State {
    Object dict;
    Object key;
    Object value;
  };
  Object module_class_;
  Object call_;
  Object mode_;
  Object function_modes_;
  std::vector<Object> hooks_;
  std::vector<State> states_;
};

/// Names that are looked up in a module's own dict.
struct Names {
  static Object intern(const char* text) { return Object::steal(PyUnicode_InternFromString(text)); }
  Object quick = intern("_graphtune_quick");
  Object recorder = intern("_graphtune_recorder");
  Object wrapped = intern("_graphtune_wrapped");
  std::array<Object, 4> hooks = {intern("_forward_hooks"), intern("_forward_pre_hooks"),
                                 intern("_backward_hooks"), intern("_backward_pre_hooks")};
};

class Entry {
 public:
  Entry(const nb::type_object& module_class, const nb::object& to_record, const nb::object& mode,
        const AnySequence& hooks, const AnySequence& states, const nb::object& function_modes)
      : to_record_(Object::borrow(to_record.ptr())),
        surroundings_(module_class, mode, hooks, states, function_modes) {}

  [[nodiscard]] bool is_transformed() const { return surroundings_.are_transforming(); }

  /// The result, of an engine or, where a module has `to_record` in a router's place, of the model,
  /// whose call is recorded. Where anything else is to be done, nn.Module's own call leads to
  /// `forward`, which finds out what, and says it. `kwargs` is a dict or null.
  [[nodiscard]] Object call(PyObject* module, PyObject* args, PyObject* kwargs) const {
    Object result = serve(module, args, kwargs);
    return result ? result : call_forward(module, args, kwargs);
  }

 private:
  [[nodiscard]] Object serve(PyObject* module, PyObject* args, PyObject* kwargs) const {
    const Object own = Object::steal(PyObject_GenericGetDict(module, nullptr));
    PyObject* router = PyDict_GetItem(own.get(), names_.quick.get());
    const TunedRouter* tuned = nullptr;
    if (router == nullptr || router == Py_None || has_hooks(own.get()) ||
        !surroundings_.are_plain()) {
      return {};
    }
    if (router == to_record_.get()) {
      return record(module, own.get(), args, kwargs);
    }
    if (!nb::try_cast(nb::handle(router), tuned)) {
      return {};
    }
    // The engines may be replaced by another thread while one of them runs.
    const Object held = Object::borrow(router);
    return tuned->serve_known(args, kwargs, at::GradMode::is_enabled());
  }

  [[nodiscard]] Object call_forward(PyObject* module, PyObject* args, PyObject* kwargs) const {
    // Looked up anew: torch.fx replaces it while it traces.
    const Object function =
        Object::steal(PyObject_GetAttrString(surroundings_.module_class(), "__call__"));
    const Py_ssize_t count = PyTuple_GET_SIZE(args);
    const Object all = Object::steal(PyTuple_New(count + 1));
    PyTuple_SET_ITEM(all.get(), 0, Py_NewRef(module));
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyTuple_SET_ITEM(all.get(), i + 1, Py_NewRef(PyTuple_GET_ITEM(args, i)));
    }
    Object result = Object::steal(PyObject_Call(function.get(), all.get(), kwargs));
    leave_openmp_spinning();  // most likely the model ran: engines serve above
    return result;
  }

  [[nodiscard]] bool has_hooks(PyObject* own) const {
    return std::any_of(names_.hooks.begin(), names_.hooks.end(), [&](const Object& name) {
      PyObject* hooks = PyDict_GetItem(own, name.get());
      return hooks == nullptr || !PyDict_Check(hooks) || PyDict_GET_SIZE(hooks) != 0;
    });
  }

  [[nodiscard]] Object record(PyObject* module, PyObject* own, PyObject* args,
                              PyObject* kwargs) const {
    // Held: the model may do anything, also with its wrapper.
    const Object recorder = Object::borrow(PyDict_GetItem(own, names_.recorder.get()));
    const Object wrapped = Object::borrow(PyDict_GetItem(own, names_.wrapped.get()));
    CallRecorder* calls = nullptr;
    if (!recorder || !wrapped || !nb::try_cast(nb::handle(recorder.get()), calls)) {
      return {};
    }
    const Object named = kwargs != nullptr ? Object::borrow(kwargs) : Object::steal(PyDict_New());
    auto [outputs, sample, problem] = calls->record(wrapped.get(), args, named.get());
    if (!sample.is_none() || !problem.is_none()) {
      nb::handle(module).attr("_graphtune_note")(sample, problem);
    }
    return Object::steal(outputs.release().ptr());
  }

  Object to_record_;
  Surroundings surroundings_;
  Names names_;
};

const Entry* entry_of_calls = nullptr;  // stays as long as the process

PyObject* call_module(PyObject* module, PyObject* args, PyObject* kwargs) noexcept {
  try {
    return entry_of_calls->call(module, args, kwargs).release();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

/// Has instances of a class called through `entry`, as those of a type that is written in C: the
/// interpreter looks no `__call__` up. It goes back to that by itself where somebody gives the
/// class another one; a class made of this one needs to be given here again.
void take_calls_of(const nb::handle entry, const nb::handle module_class) {
  auto* const type = reinterpret_cast<PyTypeObject*>(module_class.ptr());
  if (!PyType_Check(module_class.ptr()) || !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
    throw TypeError("module_class must be a class made in Python");
  }
  const Entry* const given = nb::cast<const Entry*>(entry);
  if (entry_of_calls == nullptr) {
    entry.inc_ref();
    entry_of_calls = given;
  } else if (entry_of_calls != given) {
    throw ValueError("calls are taken by another CallEntry already");
  }
  type->tp_call = call_module;
  PyType_Modified(type);
}

}  // namespace

void bind_serving(nb::module_& module) {
  nb::class_<Entry>(module, "CallEntry",
                    "Serves calls of wrapped modules whose form is known, in one step.")
      .def(nb::init<const nb::type_object&, const nb::object&, const nb::object&,
                    const AnySequence&, const AnySequence&, const nb::object&>(),
           "module_class"_a, "to_record"_a, "mode"_a, "hooks"_a, "states"_a, "function_modes"_a,
           "`module_class` is nn.Module, whose own call leads to `forward`. `mode` is a ContextVar "
           "that has to be None, `hooks` are dicts that have to be empty, `states` (dict, key, "
           "value) that have to hold, and `function_modes()` has to be False, for a call to be "
           "served.")
      .def("take_calls_of", &take_calls_of, "module_class"_a,
           "Has instances of a class called by this entry, without a frame of Python's: they are "
           "served, or go on to `forward`.")
      .def("is_transformed", &Entry::is_transformed,
           "Calls are traced, or compute otherwise than they say.");
}

}  // namespace graphtune::python

#include "bindings/recording.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings/python_values.h"
#include "bindings/rebuild.h"
#include "bindings/stub_types.h"
#include "bindings/tensor_access.h"
#include "graphtune/error.h"
#include "graphtune/hash.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace graphtune::python {
namespace {

// More shapes than this are not remembered: later calls of new shapes are still learned from, but
// no sample is copied.
constexpr std::size_t kMaxSeen = 1 << 16;

std::uint64_t fingerprint_of(const CallKey& key, const CallTree& tree,
                             std::optional<std::int64_t> batch_size) {
  thread_local std::vector<std::int64_t> sizes;  // keeps its memory
  sizes.clear();
  collect_sizes(tree, sizes);
  sizes.push_back(batch_size.value_or(0));
  sizes.push_back(static_cast<std::int64_t>(key.hash()));
  return hash_bytes(
      {reinterpret_cast<const char*>(sizes.data()), sizes.size() * sizeof(std::int64_t)});
}

/// Copies of tensors; a tensor that comes twice is copied once.
std::vector<Object> clone_all(std::span<const Object> tensors) {
  std::unordered_map<const void*, Object> copies;
  std::vector<Object> clones;
  clones.reserve(tensors.size());
  for (const Object& tensor : tensors) {
    Object& copy = copies[identity_of(tensor.get())];
    if (!copy) {
      copy = Object::steal(clone(tensor.get()));
    }
    clones.push_back(copy);
  }
  return clones;
}

void copy_arguments(PyObject* args, PyObject* kwargs, PendingCall& call) {
  call.clones = clone_all(call.walker->tensors());
  Rebuilder rebuilder(call.clones, true);
  call.args = rebuilder.rebuild(args);
  call.kwargs = rebuilder.rebuild(kwargs);
  rebuilder.finish();
}

std::vector<Parameter> parameters_from(nb::handle given) {
  constexpr std::array kKinds{Parameter::Kind::PositionalOnly, Parameter::Kind::PositionalOrKeyword,
                              Parameter::Kind::VarPositional, Parameter::Kind::KeywordOnly,
                              Parameter::Kind::VarKeyword};
  std::vector<Parameter> parameters;
  for (const nb::handle item : given) {
    const auto [name, kind, defaults] = nb::cast<std::tuple<nb::str, std::size_t, nb::tuple>>(item);
    Parameter& parameter = parameters.emplace_back();
    Object memory;
    parameter.name = text_of(name.ptr(), memory);
    parameter.kind = kKinds.at(kind);
    parameter.has_default = defaults.size() == 1;
    Constant constant;
    if (parameter.has_default && constant_of(nb::object(defaults[0]).ptr(), constant)) {
      parameter.default_value = std::move(constant);
    }
  }
  return parameters;
}

}  // namespace

void CallRecorder::walk(Walker& walker, const PendingCall& call, Walker::Hold hold) const {
  walker.walk_inputs(call.given_args.get(), call.given_kwargs.get(),
                     call.fits_signature ? &signature_ : nullptr, hold);
}

bool CallRecorder::begin(PyObject* args, PyObject* kwargs, PendingCall& call) {
  Walker& walker = *call.walker;
  call.given_args = Object::borrow(args);
  call.given_kwargs = Object::borrow(kwargs);
  try {
    walk(walker, call, Walker::Hold::Copy);
  } catch (const TypeError&) {
    // Arguments that do not fit the signature: the model will say so in its own words, unless it
    // takes them after all.
    call.fits_signature = false;
    walk(walker, call, Walker::Hold::Copy);
  }
  if (walker.has_virtual_tensors()) {
    return false;
  }
  call.batch_size = context_batch_size();
  call.key.assign(walker.tree(), recorder_.options().strict);
  call.fingerprint = fingerprint_of(call.key, walker.tree(), call.batch_size);
  call.versions.clear();
  call.versions.reserve(walker.tensors().size());
  for (const Object& tensor : walker.tensors()) {
    call.versions.push_back(version_of(tensor.get()));
  }
  if (seen_.size() < kMaxSeen && seen_.count(call.fingerprint) == 0 &&
      recorder_.wants(call.key, call.batch_size)) {
    copy_arguments(args, kwargs, call);
  }
  return true;
}

nb::object CallRecorder::finish(PendingCall& call, PyObject* outputs) {
  const WalkerLease result;
  result->walk_result(outputs);
  if (result->has_virtual_tensors()) {
    return nb::none();
  }
  const std::string written = find_written_input(call);
  ArgumentChange change = find_change(call);
  const Recorder::Recorded recorded =
      recorder_.record(call.key, call.walker->tree(), result->tree(), call.batch_size,
                       static_cast<bool>(call.args));  // if not, only the result's sizes are new
  if (seen_.size() < kMaxSeen) {
    seen_.insert(call.fingerprint);
  }
  if (!written.empty() && written_.insert(recorded.graph).second) {
    recorder_.set_eager_reason(
        recorded.graph,
        fmt::format("forward writes to its input {} in place, which no engine does", written));
  }
  note_change(recorded.graph, std::move(change));
  if (!recorded.place) {
    return nb::none();
  }
  const std::vector<Object> clones = clone_all(result->tensors());
  Rebuilder rebuilder(clones, true);
  Object copy = rebuilder.rebuild(outputs);
  rebuilder.finish();
  return nb::make_tuple(recorded.graph, *recorded.place, nb::steal(call.args.release()),
                        nb::steal(call.kwargs.release()), nb::steal(copy.release()),
                        call.batch_size);
}

CallRecorder::RecordedCall CallRecorder::record(PyObject* model, PyObject* args, PyObject* kwargs) {
  PendingCall call;
  const bool begun = begin(args, kwargs, call);
  RecordedCall recorded{nb::steal(PyObject_Call(model, args, kwargs)), nb::none(), nb::none()};
  if (!recorded.outputs.is_valid()) {
    throw nb::python_error();
  }
  if (begun) {
    try {
      recorded.sample = finish(call, recorded.outputs.ptr());
    } catch (const ValueError& error) {
      recorded.problem = nb::steal(message_from(error.what()).release());
    }
  }
  return recorded;
}

/// Locator of an input that the model wrote to; empty if there is none.
std::string CallRecorder::find_written_input(const PendingCall& call) const {
  const std::span<const Object> tensors = call.walker->tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    PyObject* tensor = tensors[i].get();
    const bool written =
        call.versions[i] ? version_of(tensor) != call.versions[i]
                         // Inference tensors count no writes; where there is a copy, values tell.
                         : !call.clones.empty() && !same_values(tensor, call.clones[i].get());
    if (written) {
      return call.walker->tree().tensor_locators()[i].shown();
    }
  }
  return {};
}

/// What the model did to the containers among the arguments.
ArgumentChange CallRecorder::find_change(const PendingCall& call) const {
  const Walker& before = *call.walker;
  if (!holds_containers(before.tree())) {
    return {};
  }
  const WalkerLease after;
  walk(*after, call, Walker::Hold::Borrow);
  if (!is_changed(before, *after)) {
    return {};
  }
  ArgumentChange change{key_of_change(before, *after), {}, {}};
  if (known_changes_.count(change.key) != 0) {
    return change;
  }
  // A type may make its tensors anew each time that it is read: then values tell, where they were
  // kept.
  const WalkerLease again;
  walk(*again, call, Walker::Hold::Borrow);
  if (is_changed(*after, *again) && CallKey(before.tree(), true) == CallKey(after->tree(), true)) {
    const std::span<const Object> tensors = after->tensors();
    bool same = true;
    for (std::size_t i = 0; same && i < call.clones.size(); ++i) {
      same = same_values(tensors[i].get(), call.clones[i].get());
    }
    if (same) {
      return {};
    }
  }
  return describe_change(before, *after);
}

/// All calls of a graph must change the same, as an engine does.
void CallRecorder::note_change(std::uint32_t graph, ArgumentChange change) {
  const auto [entry, is_first] = changes_.try_emplace(graph);
  if (is_first) {
    if (change.key != 0) {
      known_changes_.insert(change.key);
    }
    entry->second = std::move(change);
    return;
  }
  if (entry->second.key != change.key) {
    const ArgumentChange& shown = change.key != 0 ? change : entry->second;
    recorder_.set_eager_reason(
        graph, fmt::format("forward changes its argument {} (a {}) in some calls, and not or in "
                           "another way in others of the same structure, where an engine does "
                           "always the same: return what is new instead",
                           shown.place, shown.type));
  }
}

ArgumentChange CallRecorder::change_of(std::uint32_t graph) const {
  const auto found = changes_.find(graph);
  return found == changes_.end() ? ArgumentChange() : found->second;
}

void CallRecorder::clear() {
  recorder_.clear();
  seen_.clear();
  written_.clear();
  changes_.clear();
  known_changes_.clear();
}

void bind_recording(nb::module_& module) {
  nb::class_<CallSignature>(module, "Signature",
                            "Parameters of a callable, by which calls are normalised.")
      .def(
          "__init__",
          [](CallSignature* self, nb::handle parameters) {
            new (self) CallSignature(parameters_from(parameters));
          },
          "parameters"_a,
          nb::sig("def __init__(self, parameters: collections.abc.Iterable[tuple[str, int, "
                  "tuple[object, ...]]]) "
                  "-> None"),
          "(name, inspect's kind, (default,) or ()) for each parameter.");
  nb::class_<PendingCall>(module, "PendingCall", "A call that has begun.");
  nb::class_<CallRecorder>(module, "CallRecorder", "Records the calls of one module.")
      .def(
          "__init__",
          [](CallRecorder* self, const CallSignature& signature, bool strict,
             std::uint32_t max_samples_stored, std::uint32_t max_graphs) {
            new (self) CallRecorder({.strict = strict,
                                     .max_samples_stored = max_samples_stored,
                                     .max_graphs = max_graphs},
                                    signature);
          },
          "signature"_a, "strict"_a, "max_samples_stored"_a, "max_graphs"_a)
      .def(
          "begin",
          [](CallRecorder& self, nb::tuple args, nb::dict kwargs) {
            auto call = std::make_unique<PendingCall>();
            return self.begin(args.ptr(), kwargs.ptr(), *call) ? std::move(call) : nullptr;
          },
          "args"_a, "kwargs"_a,
          nb::sig("def begin(self, args: tuple[typing.Any, ...], kwargs: dict[str, typing.Any]) -> "
                  "PendingCall | None"),
          "Before the model runs. None while the call is being traced or transformed.")
      .def(
          "finish",
          [](CallRecorder& self, PendingCall& call, nb::handle outputs) {
            return self.finish(call, outputs.ptr());
          },
          "call"_a, "outputs"_a.none(),
          nb::sig(
              "def finish(self, call: PendingCall, outputs: object) -> "
              "tuple[int, int, tuple[typing.Any, ...], dict[str, typing.Any], typing.Any, int | "
              "None] | None"),
          "After it ran: the sample to keep, with its graph and its place among that graph's "
          "samples; or None.")
      .def(
          "record",
          [](CallRecorder& self, nb::handle model, nb::tuple args, nb::dict kwargs) {
            auto [outputs, sample, problem] = self.record(model.ptr(), args.ptr(), kwargs.ptr());
            return nb::make_tuple(std::move(outputs), std::move(sample), std::move(problem));
          },
          "model"_a, "args"_a, "kwargs"_a,
          nb::sig("def record(self, model: collections.abc.Callable[..., typing.Any], args: "
                  "tuple[typing.Any, ...], kwargs: dict[str, typing.Any]) -> tuple[typing.Any, "
                  "tuple[int, int, tuple[typing.Any, ...], dict[str, typing.Any], typing.Any, int "
                  "| None] | None, str | None]"),
          "Calls the model between begin and finish: (its result, the sample to keep or None, why "
          "the call could not be recorded or None).")
      .def("graphs", [](CallRecorder& self) { return self.recorder().graphs(); })
      .def(
          "find",
          [](CallRecorder& self, const Args& args, const Kwargs& kwargs) {
            const WalkerLease walker;
            walker->walk_inputs(args.ptr(), kwargs.ptr(), &self.signature());
            return self.recorder().find(CallKey(walker->tree(), self.recorder().options().strict));
          },
          "args"_a, "kwargs"_a, "Index of the graph that such a call has, if it is recorded.")
      .def(
          "traffic",
          [](CallRecorder& self, std::uint32_t graph) {
            const Traffic traffic = self.recorder().traffic(graph);
            std::vector<std::pair<std::vector<std::int64_t>, std::uint64_t>> rows;
            for (const Traffic::Row& row : traffic.rows()) {
              rows.emplace_back(row.sizes, row.calls);
            }
            return rows;
          },
          "graph"_a,
          "The sizes that a graph's calls had, of all axes of all tensors in canonical order, each "
          "with the number of such calls.")
      .def(
          "set_eager_reason",
          [](CallRecorder& self, std::uint32_t graph, std::string reason) {
            self.recorder().set_eager_reason(graph, std::move(reason));
          },
          "graph"_a, "reason"_a)
      .def(
          "change",
          [](CallRecorder& self, std::uint32_t graph)
              -> std::optional<std::tuple<std::uint64_t, std::string, std::string>> {
            const ArgumentChange change = self.change_of(graph);
            if (change.key == 0) {
              return std::nullopt;
            }
            return std::tuple(change.key, change.place, change.type);
          },
          "graph"_a,
          "What a graph's calls change of their arguments: a number that is the same for the same "
          "change, the first changed container's place and type. None: nothing.")
      .def_prop_ro("strict", [](CallRecorder& self) { return self.recorder().options().strict; })
      .def("clear", &CallRecorder::clear);
}

}  // namespace graphtune::python

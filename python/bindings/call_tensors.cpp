#include "bindings/call_tensors.h"

#include <cstddef>
#include <string>
#include <vector>

#include <nanobind/stl/string.h>

#include "bindings/call_signature.h"
#include "bindings/rebuild.h"
#include "bindings/stub_types.h"
#include "bindings/walk.h"
#include "bindings/walker_lease.h"
#include "graphtune/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace graphtune::python {
namespace {

TensorList in_canonical_order(const Walker& walker) {
  TensorList result;
  for (std::size_t canonical = 0; canonical < walker.tensors().size(); ++canonical) {
    const std::size_t index = walker.tree().tensor_at(canonical);
    result.append(nb::borrow(walker.tensors()[index].get()));
  }
  return result;
}

std::vector<Object> in_callers_order(const Walker& walker, const TensorSequence& canonical) {
  if (nb::len(canonical) != walker.tensors().size()) {
    throw ValueError("the call has " + std::to_string(walker.tensors().size()) + " tensors, " +
                     std::to_string(nb::len(canonical)) + " were given");
  }
  std::vector<Object> tensors(walker.tensors().size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const nb::object tensor = canonical[i];
    tensors[walker.tree().tensor_at(i)] = Object::borrow(tensor.ptr());
  }
  return tensors;
}

TensorList call_tensors(const Args& args, const Kwargs& kwargs, const CallSignature* signature) {
  const WalkerLease walker;
  walker->walk_inputs(args.ptr(), kwargs.ptr(), signature);
  return in_canonical_order(*walker);
}

nb::typed<nb::tuple, Args, Kwargs> call_with_tensors(const Args& args, const Kwargs& kwargs,
                                                     const TensorSequence& tensors,
                                                     const CallSignature* signature) {
  const WalkerLease walker;
  walker->walk_inputs(args.ptr(), kwargs.ptr(), signature);
  const std::vector<Object> ordered = in_callers_order(*walker, tensors);
  Rebuilder rebuilder(ordered, true);
  const nb::object new_args = nb::steal(rebuilder.rebuild(args.ptr()).release());
  const nb::object new_kwargs = nb::steal(rebuilder.rebuild(kwargs.ptr()).release());
  rebuilder.finish();
  return nb::make_tuple(new_args, new_kwargs);
}

TensorList result_tensors(const nb::handle result) {
  const WalkerLease walker;
  walker->walk_result(result.ptr());
  return in_canonical_order(*walker);
}

nb::object result_with_tensors(const nb::handle result, const TensorSequence& tensors) {
  const WalkerLease walker;
  walker->walk_result(result.ptr());
  const std::vector<Object> ordered = in_callers_order(*walker, tensors);
  Rebuilder rebuilder(ordered, true);
  nb::object rebuilt = nb::steal(rebuilder.rebuild(result.ptr()).release());
  rebuilder.finish();
  return rebuilt;
}

}  // namespace

void bind_call_tensors(nb::module_& module) {
  module.def("call_tensors", &call_tensors, "args"_a, "kwargs"_a, "signature"_a = nb::none(),
             "The tensors of a call in canonical order: what an engine takes.");
  module.def("call_with_tensors", &call_with_tensors, "args"_a, "kwargs"_a, "tensors"_a,
             "signature"_a = nb::none(),
             "The call with other tensors, given in canonical order; containers keep their types.");
  module.def("result_tensors", &result_tensors, "result"_a,
             "The tensors of a result in canonical order.");
  module.def("result_with_tensors", &result_with_tensors, "result"_a, "tensors"_a,
             "The result with other tensors, given in canonical order.");
}

}  // namespace graphtune::python

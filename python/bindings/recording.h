#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <nanobind/nanobind.h>

#include "bindings/argument_change.h"
#include "bindings/call_signature.h"
#include "bindings/walk.h"
#include "bindings/walker_lease.h"
#include "graphtune/recorder.h"

namespace graphtune::python {

/// A call between its begin and its end: what its arguments were before the model saw them.
struct PendingCall {
  WalkerLease walker;
  CallKey key;
  std::optional<std::int64_t> batch_size;
  std::uint64_t fingerprint = 0;                       ///< of graph, sizes and batch size
  std::vector<std::optional<std::uint32_t>> versions;  ///< of the tensors, in the caller's order
  // To be walked again where they hold containers, which the model may change.
  Object given_args;
  Object given_kwargs;
  bool fits_signature = true;
  // Of a call that may be worth keeping: copies from before the model ran.
  std::vector<Object> clones;
  Object args;
  Object kwargs;
};

/// Records the calls of one module: graphs and shapes through graphtune::Recorder, and what only
/// Python can see: writes to inputs, changes of containers among the arguments, and copies of the
/// samples that are kept. Used with the GIL held.
class CallRecorder {
 public:
  CallRecorder(Recorder::Options options, CallSignature signature)
      : recorder_(options), signature_(std::move(signature)) {}

  [[nodiscard]] Recorder& recorder() noexcept { return recorder_; }
  [[nodiscard]] const CallSignature& signature() const noexcept { return signature_; }

  /// Before the model runs. False when the call is being traced or transformed: nothing is to be
  /// recorded.
  [[nodiscard]] bool begin(PyObject* args, PyObject* kwargs, PendingCall& call);
  /// After it ran. Gives the sample to keep, (graph, args, kwargs, outputs, batch_size), or None.
  /// Throws ValueError above max_graphs.
  [[nodiscard]] nanobind::object finish(PendingCall& call, PyObject* outputs);
  struct RecordedCall {
    nanobind::object outputs;
    nanobind::object sample;   ///< to keep, as finish() gives it, or None
    nanobind::object problem;  ///< why the call could not be recorded, or None
  };
  /// Both, around a call of `model`.
  [[nodiscard]] RecordedCall record(PyObject* model, PyObject* args, PyObject* kwargs);
  void clear();
  /// What the graph's calls change of their arguments; its key is 0 when they change nothing.
  [[nodiscard]] ArgumentChange change_of(std::uint32_t graph) const;

 private:
  void walk(Walker& walker, const PendingCall& call, Walker::Hold hold) const;
  [[nodiscard]] std::string find_written_input(const PendingCall& call) const;
  [[nodiscard]] ArgumentChange find_change(const PendingCall& call) const;
  void note_change(std::uint32_t graph, ArgumentChange change);

  Recorder recorder_;
  CallSignature signature_;
  std::unordered_set<std::uint64_t> seen_;     // fingerprints
  std::unordered_set<std::uint32_t> written_;  // graphs whose inputs were seen to be written
  std::unordered_map<std::uint32_t, ArgumentChange> changes_;  // by graph, of its first call
  std::unordered_set<std::uint64_t> known_changes_;            // their keys
};

/// Signature and CallRecorder.
void bind_recording(nanobind::module_& module);

}  // namespace graphtune::python

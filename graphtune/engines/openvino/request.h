#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <openvino/runtime/compiled_model.hpp>
#include <openvino/runtime/infer_request.hpp>

#include "graphtune/engines/engine_file.h"
#include "graphtune/tensor.h"

namespace graphtune {

/// One of a compiled model's requests, used by one call at a time.
class Request {
 public:
  Request(ov::CompiledModel& model, const EngineFile& file);

  /// Runs the model; a result is a copy of what lies in the request's memory, which the next run
  /// overwrites.
  void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs);

 private:
  struct Slot {
    ov::Tensor own;          ///< memory of the request's
    bool borrowing = false;  ///< whether the caller's memory is set in its place
  };
  void set_input(std::size_t slot, const Tensor& tensor);
  [[nodiscard]] Tensor copy_output(std::size_t index);

  const EngineFile& file_;
  ov::InferRequest request_;
  std::vector<Slot> slots_;
  ov::Shape shape_;                  ///< scratch
  std::vector<std::int64_t> sizes_;  ///< scratch
};

/// Requests that wait for their next call; grows to as many as ever ran at a time. Thread safe.
class RequestPool {
 public:
  RequestPool(ov::CompiledModel model, const EngineFile& file)
      : model_(std::move(model)), file_(file) {}

  /// A request is given back when it has done well; one that threw is dropped, as its state is
  /// unknown.
  [[nodiscard]] std::unique_ptr<Request> take();
  void give_back(std::unique_ptr<Request> request);

 private:
  ov::CompiledModel model_;
  const EngineFile& file_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Request>> idle_;
};

}  // namespace graphtune

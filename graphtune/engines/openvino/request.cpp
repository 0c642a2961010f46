#include "graphtune/engines/openvino/request.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "graphtune/engines/openvino/element_types.h"

namespace graphtune {
namespace {

// Setting another tensor takes OpenVINO about 3 µs, as long as copying so many bytes.
constexpr std::size_t kCopyBytes = 32 * 1024;

bool same_shape(const ov::Shape& shape, const Dims& sizes) {
  return std::equal(shape.begin(), shape.end(), sizes.begin(), sizes.end(),
                    [](std::size_t a, std::int64_t b) { return a == static_cast<std::size_t>(b); });
}

}  // namespace

Request::Request(ov::CompiledModel& model, const EngineFile& file)
    : file_(file), request_(model.create_infer_request()), slots_(file.inputs.size()) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const ov::Output<const ov::Node> port = model.input(i);
    ov::Shape smallest;
    for (const ov::Dimension& size : port.get_partial_shape()) {
      smallest.push_back(static_cast<std::size_t>(size.get_min_length()));
    }
    slots_[i].own = ov::Tensor(port.get_element_type(), smallest);
    request_.set_input_tensor(i, slots_[i].own);
  }
}

void Request::set_input(std::size_t index, const Tensor& tensor) {
  Slot& slot = slots_[index];
  const Dims& sizes = tensor.sizes();
  const std::size_t bytes = tensor.byte_size();
  shape_.assign(sizes.begin(), sizes.end());
  if (bytes > kCopyBytes) {
    request_.set_input_tensor(index,
                              ov::Tensor(slot.own.get_element_type(), shape_, tensor.data()));
    slot.borrowing = true;
    return;
  }
  if (!same_shape(slot.own.get_shape(), sizes)) {
    slot.own.set_shape(shape_);
  }
  if (bytes > 0) {
    std::memcpy(slot.own.data(), tensor.data(), bytes);
  }
  if (slot.borrowing) {
    request_.set_input_tensor(index, slot.own);
    slot.borrowing = false;
  }
}

Tensor Request::copy_output(std::size_t index) {
  const EngineFile::Output& output = file_.outputs[index];
  const ov::Tensor result = request_.get_output_tensor(output.result);
  const ov::Shape& shape =
      result.get_shape();  // dense: a host tensor of OpenVINO's own has no gaps
  file_.check_output(index, output.dtype, shape.size());
  sizes_.assign(shape.begin(), shape.end());
  Tensor copy = Tensor::empty(output.dtype, Dims(sizes_));
  if (result.get_size() > 0) {
    convert_elements(result.get_element_type(), result.data(), output.dtype, copy.data(),
                     result.get_size());
  }
  return copy;
}

void Request::run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    set_input(i, inputs[file_.inputs[i].index]);
  }
  request_.infer();
  outputs.reserve(file_.outputs.size());
  for (std::size_t i = 0; i < file_.outputs.size(); ++i) {
    outputs.push_back(copy_output(i));
  }
}

std::unique_ptr<Request> RequestPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Request> request = std::move(idle_.back());
      idle_.pop_back();
      return request;
    }
  }
  return std::make_unique<Request>(model_, file_);
}

void RequestPool::give_back(std::unique_ptr<Request> request) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(request));
}

}  // namespace graphtune

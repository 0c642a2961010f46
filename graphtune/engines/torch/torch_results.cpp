#include "graphtune/engines/torch/torch_results.h"

#include "graphtune/engines/torch/tensor_bridge.h"
#include "graphtune/engines/torch/torch_errors.h"

namespace graphtune {

void hand_out(const EngineFile& file, const std::vector<at::Tensor>& results,
              std::vector<Tensor>& outputs) {
  if (results.size() != file.result_count) {
    throw engine_error(file.backend, "gave ", results.size(), " results, its ", EngineFile::kName,
                       " promises ", file.result_count);
  }
  for (std::size_t i = 0; i < file.outputs.size(); ++i) {
    const at::Tensor& result = results[file.outputs[i].result];
    if (!result.defined() || result.layout() != at::kStrided) {
      throw engine_error(file.backend, "output ", i, " is no dense tensor");
    }
    file.check_output(i, static_cast<DType>(result.scalar_type()),
                      static_cast<std::size_t>(result.dim()));
  }
  std::vector<bool> owned(results.size());  // told before any is taken, which adds references
  for (std::size_t i = 0; i < results.size(); ++i) {
    owned[i] = is_owned_by(results, i);
  }
  std::vector<Tensor> taken;
  taken.reserve(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    taken.push_back(take_from_torch(results[i], owned[i]));
  }
  outputs.reserve(file.outputs.size());
  for (const EngineFile::Output& output : file.outputs) {
    outputs.push_back(taken[output.result]);
  }
}

}  // namespace graphtune

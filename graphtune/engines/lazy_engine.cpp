#include "graphtune/engines/lazy_engine.h"

#include <exception>

#include "graphtune/engines/registry.h"
#include "graphtune/error.h"

namespace graphtune {

LazyEngine::LazyEngine(Backend& backend, std::filesystem::path folder, EngineOptions options)
    : backend_(backend), folder_(std::move(folder)), options_(options), checked_(files()) {}

void LazyEngine::run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) {
  std::call_once(once_, [this] {
    try {
      engine_ = load();
    } catch (const std::exception& error) {
      failure_ = error.what();
    }
  });
  if (engine_ == nullptr) {
    throw EngineError(failure_);
  }
  engine_->run(inputs, outputs);
}

std::shared_ptr<Engine> LazyEngine::load() const {
  if (files() != checked_) {
    throw EngineError(
        folder_.string() +
        ": its files were changed after the bundle was opened; load the bundle again");
  }
  return load_engine(backend_, folder_, options_);
}

LazyEngine::Files LazyEngine::files() const {
  Files found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
    if (entry.is_regular_file()) {
      found[entry.path().string()] = {entry.file_size(), entry.last_write_time()};
    }
  }
  return found;
}

}  // namespace graphtune

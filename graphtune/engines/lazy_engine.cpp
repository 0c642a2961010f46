#include "graphtune/engines/lazy_engine.h"

#include <exception>

#include "graphtune/error.h"

namespace graphtune {

LazyEngine::LazyEngine(std::string backend, std::filesystem::path folder, Load load)
    : backend_(std::move(backend)),
      folder_(std::move(folder)),
      load_(std::move(load)),
      checked_(files()) {}

void LazyEngine::run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) {
  std::call_once(once_, [this] {
    try {
      engine_ = load();
    } catch (const std::exception& error) {
      failure_ = error.what();
    } catch (...) {  // an engine's runtime may throw anything
      failure_ = "it threw what is no std::exception";
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
  std::shared_ptr<Engine> engine = load_();
  if (engine == nullptr) {
    throw EngineError("the backend " + backend_ + " gave no engine");
  }
  return engine;
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

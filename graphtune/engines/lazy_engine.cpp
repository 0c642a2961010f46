#include "graphtune/engines/lazy_engine.h"

#include <exception>
#include <system_error>

#include <sys/stat.h>

#include "graphtune/engines/registry.h"
#include "graphtune/error.h"

namespace graphtune {

LazyEngine::LazyEngine(Backend& backend, std::filesystem::path folder, EngineOptions options)
    : backend_(backend), folder_(std::move(folder)), options_(options), checked_(files()) {
  if (checked_.empty()) {  // then no change would be seen
    throw EngineError(folder_.string() + ": the engine's files can't be read");
  }
}

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
        ": its files were changed or removed after the bundle was opened; load the bundle again");
  }
  return load_engine(backend_, folder_, options_);
}

LazyEngine::Files LazyEngine::files() const {
  Files found;
  std::error_code failed;
  std::filesystem::recursive_directory_iterator entry(folder_, failed);
  for (; !failed && entry != std::filesystem::recursive_directory_iterator();
       entry.increment(failed)) {
    struct stat facts = {};
    if (::stat(entry->path().c_str(), &facts) == 0 && S_ISREG(facts.st_mode)) {
      found[entry->path().string()] = {static_cast<std::int64_t>(facts.st_dev),
                                       static_cast<std::int64_t>(facts.st_ino), facts.st_size,
                                       facts.st_ctim.tv_sec, facts.st_ctim.tv_nsec};
    }
  }
  return failed ? Files() : found;
}

}  // namespace graphtune

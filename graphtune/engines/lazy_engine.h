#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graphtune/engines/engine.h"

namespace graphtune {

/// An engine that the first call loads; calls that come meanwhile wait for it. Loading is tried
/// once: where it failed, every call throws the EngineError that says why. So it is, too, when a
/// file of the engine's folder was replaced after the engine was made: what is loaded must be what
/// was checked.
class LazyEngine final : public Engine {
 public:
  /// `backend` lives as long as the engine: those that find_backend gives always do. Throws
  /// EngineError where the folder can't be read.
  LazyEngine(Backend& backend, std::filesystem::path folder, EngineOptions options);

  [[nodiscard]] std::string_view backend() const noexcept override { return backend_.name(); }
  void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) override;
  /// Not known before it is loaded.
  [[nodiscard]] bool keeps_inputs() const noexcept override { return true; }

 private:
  /// What tells a file from another one that took its place, or its contents: where it lies, its
  /// size, and when it was last changed, which nobody can set.
  using Facts = std::array<std::int64_t, 5>;
  using Files = std::map<std::string, Facts>;
  /// Empty where the folder can't be read.
  [[nodiscard]] Files files() const;
  [[nodiscard]] std::shared_ptr<Engine> load() const;

  Backend& backend_;
  std::filesystem::path folder_;
  EngineOptions options_;
  Files checked_;
  std::once_flag once_;
  std::shared_ptr<Engine> engine_;
  std::string failure_;
};

}  // namespace graphtune

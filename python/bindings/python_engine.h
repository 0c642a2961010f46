#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "graphtune/engines/engine.h"

namespace graphtune::python {

/// Engines that are written in Python: `class_name` is "module:qualname" of a class that
/// graphtune.python_engines knows how to use, imported when it is first needed.
///
/// Callers may hold the GIL or not, and may be threads that Python has never seen. An exception of
/// the class is an EngineError in one line; what is no Exception (Ctrl-C) stays Python's.
class PythonBackend final : public Backend {
 public:
  PythonBackend(std::string name, std::string class_name)
      : name_(std::move(name)), class_name_(std::move(class_name)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::string version() const override;
  [[nodiscard]] std::string unavailable_reason() const override;
  /// What such a class loads, only the class knows.
  [[nodiscard]] bool loads_native_code() const noexcept override { return true; }
  [[nodiscard]] bool is_portable() const noexcept override { return true; }
  [[nodiscard]] std::shared_ptr<Engine> load(const std::filesystem::path& folder,
                                             const EngineOptions& options) override;

 private:
  std::string name_;
  std::string class_name_;
};

}  // namespace graphtune::python

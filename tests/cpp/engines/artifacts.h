#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graphtune/engines/engine.h"
#include "graphtune/tensor.h"

namespace graphtune::test {

/// A call, and what eager gave.
struct Case {
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
};

struct Cases {
  double tolerance = 0;
  std::vector<Case> cases;
};

/// The folder that make_artifacts.py fills, made when it is not there or not of this script and
/// these libraries. Throws std::runtime_error.
const std::filesystem::path& artifacts_folder();

/// Why there is nothing to test (its library was not built, or the Python packages to make its
/// engines are absent); empty when there is.
std::string reason_to_skip(const std::string& backend);

std::filesystem::path engine_folder(const std::string& model, const std::string& backend);
std::shared_ptr<Engine> load_engine(const std::string& model, const std::string& backend,
                                    const EngineOptions& options = {});
Cases read_cases(const std::string& model);

/// A copy of an engine's folder, gone with this object, for tests that damage it.
class DamagedEngine {
 public:
  DamagedEngine(const std::string& model, const std::string& backend);
  ~DamagedEngine();
  DamagedEngine(const DamagedEngine&) = delete;
  DamagedEngine& operator=(const DamagedEngine&) = delete;

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  /// Replaces `from`, which must be there, by `to` in engine.json.
  void edit(const std::string& from, const std::string& to) const;

 private:
  std::filesystem::path folder_;
};

/// Fails the test unless both have the same dtype and sizes, and values within `tolerance`
/// (relative and absolute).
void expect_close(const Tensor& actual, const Tensor& expected, double tolerance,
                  const std::string& what);
void expect_close(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected,
                  double tolerance, const std::string& what);

/// The elements in row-major order, as bytes.
std::vector<char> bytes_of(const Tensor& tensor);

}  // namespace graphtune::test

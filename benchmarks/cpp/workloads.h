#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "graphtune/module.h"
#include "graphtune/router.h"
#include "graphtune/sample_metadata.h"
#include "graphtune/tensor.h"

/// What the benchmarks of the core work on: made-up calls, and engines that do nothing.
namespace graphtune::workloads {

constexpr std::int64_t kLength = 16;

/// A call as an encoder gets it: 5 tensors of the batch size, given by name.
Arguments encoder_call(std::int64_t batch, std::int64_t length = kLength);
/// A call with a list of `count` tensors, as a decoder gets its cache.
Arguments list_call(std::int64_t count, std::int64_t batch, std::int64_t length);

CallTree flattened(const Arguments& arguments);
SampleMetadata metadata_of(const Arguments& arguments, std::int64_t batch);
/// Of encoder calls of three batch sizes and lengths.
SampleMetadata learned_encoder();

/// Gives the same tensor at every call.
class IdleEngine final : public Engine {
 public:
  [[nodiscard]] std::string_view backend() const noexcept override { return "idle"; }
  void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) override;

 private:
  Tensor result_ = Tensor::zeros(DType::Float32, {2, kLength});
};

/// As many graphs of encoder calls, each with an engine that does nothing, and a call of each.
class RoutedGraphs {
 public:
  explicit RoutedGraphs(std::int64_t graph_count);

  [[nodiscard]] const Router& router() const noexcept { return *router_; }
  [[nodiscard]] const std::vector<Arguments>& calls() const noexcept { return calls_; }
  /// As after the first call of each.
  void remember_forms() const;

 private:
  std::unique_ptr<Router> router_;
  std::vector<Arguments> calls_;
};

/// A bundle of one graph, written and loaded as any other; its folder goes when it does.
class IdleBundle {
 public:
  IdleBundle();
  ~IdleBundle();
  IdleBundle(const IdleBundle&) = delete;
  IdleBundle& operator=(const IdleBundle&) = delete;

  [[nodiscard]] const Module& module() const { return *module_; }
  [[nodiscard]] static Arguments call();

 private:
  std::filesystem::path folder_;
  std::unique_ptr<Module> module_;
};

}  // namespace graphtune::workloads

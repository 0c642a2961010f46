#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "calls.h"
#include "fake_backend.h"
#include "graphtune/bundle.h"
#include "graphtune/engines/registry.h"
#include "temporary_folder.h"

namespace graphtune::test {

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// forward(input_ids, mask=None): ids (b, s0) -> {"hidden": factor * ids, "mode": "eval", "ids":
/// the input itself}. graph_0 has no mask and two engines, "small" (factor 1) up to b = 2 and
/// "large" (factor 2); graph_1 has a mask and stayed eager.
class SampleBundle {
 public:
  SampleBundle() {
    register_backend(backend);
    write_text(source("small"), R"({"factor": 1, "outputs": [0, 0]})");
    write_text(source("large"), R"({"factor": 2, "outputs": [0, 0]})");
    write_text(folder_.path() / "source" / "large" / "data" / "weights.bin",
               std::string(1000, 'w'));

    bundle.module_name = "sample";
    bundle.signature =
        Signature({{"input_ids", Parameter::Kind::PositionalOrKeyword, false, {}},
                   {"mask", Parameter::Kind::PositionalOrKeyword, true, Constant::none()}});
    bundle.graphs.push_back({plain_graph(), {}, {}, {-1, 0}, {}});
    StoredGraph& graph = bundle.graphs[0];
    graph.plan.entries = {{"small", {{{0, {1, 2}}}}}, {"large", {}}};
    graph.engines = {{"small", "fake", "graph_0/small", false, R"({"build_seconds": 1.5})"},
                     {"large", "fake", "graph_0/large", false, "{}"}};
    GraphSpec masked(
        "graph_1",
        SampleMetadata(Call(Named{{"input_ids", ids({1, 4})}, {"mask", ids({1, 4})}}).tree, true),
        SampleMetadata(Result(hidden(1, 4)).tree, true));
    masked.set_eager_reason("the exporter said no");
    bundle.graphs.push_back({masked, {}, {}, {}, {}});
    bundle.versions = {{"graphtune", "0.1.0"}, {"weights", std::string(64, 'a')}};
    bundle.hardware = describe_hardware();
    sources = {{"graph_0/small", folder_.path() / "source" / "small"},
               {"graph_0/large", folder_.path() / "source" / "large"}};
  }

  [[nodiscard]] std::filesystem::path source(const std::string& engine) const {
    return folder_.path() / "source" / engine / "engine.json";
  }
  [[nodiscard]] std::filesystem::path path() const { return folder_.path() / "sample.bundle"; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }

  /// Writes it to path().
  const std::filesystem::path& write() {
    write_bundle(bundle, sources, path());
    written_ = path();
    return written_;
  }

  static Value hidden(std::int64_t batch, std::int64_t length) {
    return Value::object("m.Output",
                         {{Step::of_key(Constant::string("hidden")), zeros({batch, length})},
                          {Step::of_key(Constant::string("mode")), "eval"},
                          {Step::of_key(Constant::string("ids")), ids({batch, length})}});
  }

  std::shared_ptr<FakeBackend> backend = std::make_shared<FakeBackend>();
  Bundle bundle;
  std::map<std::string, std::filesystem::path> sources;

 private:
  static GraphSpec plain_graph() {
    const auto metadata = [](std::int64_t batch, std::int64_t length) {
      return SampleMetadata(Call(Named{{"input_ids", ids({batch, length})}}).tree, true, batch);
    };
    const auto result = [](std::int64_t batch, std::int64_t length) {
      return SampleMetadata(Result(hidden(batch, length)).tree, true, batch);
    };
    GraphSpec spec("graph_0", metadata(1, 4), result(1, 4));
    spec.update(metadata(2, 9), result(2, 9));
    spec.update(metadata(8, 6), result(8, 6));
    Contract learned = spec.contract();
    spec.set_contract(Contract(learned.sizes(), learned.symbols(), {{0, 0, 99}}));
    return spec;
  }

  TemporaryFolder folder_;
  std::filesystem::path written_;
};

}  // namespace graphtune::test

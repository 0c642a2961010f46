#include <atomic>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocation_count.h"
#include "graphtune/error.h"
#include "graphtune/module.h"
#include "graphtune/tensor_spec.h"
#include "sample_bundle.h"

namespace graphtune {
namespace {

using test::FakeBackend;
using test::FakeEngine;
using test::ids;
using test::message_of;
using test::SampleBundle;
using test::write_text;
using test::zeros;
using ::testing::AllOf;
using ::testing::HasSubstr;

Tensor counting(std::int64_t batch, std::int64_t length) {
  Tensor tensor = Tensor::empty(DType::Int64, {batch, length});
  std::iota(tensor.data_as<std::int64_t>(), tensor.data_as<std::int64_t>() + batch * length, 0);
  return tensor;
}

TEST(Module, ServesCallsHoweverTheyAreWritten) {
  SampleBundle sample;
  const Module module = Module::load(sample.write());
  const Tensor input = counting(2, 5);
  for (const Value& result :
       {module({input}), module({}, {{"input_ids", input}}), module({input, nullptr}),
        module({}, {{"mask", nullptr}, {"input_ids", input}}), module.call({{input}, {}})}) {
    EXPECT_EQ(result.container().type, "m.Output");
    EXPECT_EQ(result["mode"].constant(), Constant::string("eval"));
    const Tensor& hidden = result["hidden"].tensor();
    EXPECT_EQ(shape_to_string(hidden.sizes().span()), "[2, 5]");
    EXPECT_EQ(hidden.data_as<float>()[9], 9.0F);
    // The module returns its input itself.
    EXPECT_EQ(result["ids"].tensor().data(), input.data());
  }
  EXPECT_EQ(module({counting(8, 6)})["hidden"].tensor().data_as<float>()[47], 94.0F);  // "large"
  const CallStats stats = module.stats();
  EXPECT_EQ(stats.calls, 6U);
  EXPECT_EQ(stats.by_graph.at("graph_0").at("small"), 5U);
  EXPECT_EQ(stats.by_graph.at("graph_0").at("large"), 1U);
  EXPECT_TRUE(module.problems().empty());
}

TEST(Module, ExplainsWithoutRunning) {
  SampleBundle sample;
  const Module module = Module::load(sample.write());
  const Module::Served served = module.explain({{ids({3, 5})}, {}});
  EXPECT_EQ(served.graph, "graph_0");
  EXPECT_EQ(served.engine, "large");
  EXPECT_THROW((void)module.explain({{ids({9, 5})}, {}}), MissError);
  EXPECT_EQ(module.stats().calls, 0U);
}

TEST(Module, EnginesAreLoadedWhenTheOptionsSay) {
  SampleBundle sample;
  sample.write();
  for (const EngineLoading loading :
       {EngineLoading::InTurn, EngineLoading::InParallel, EngineLoading::OnFirstCall}) {
    sample.backend->loads = 0;
    LoadOptions options;
    options.loading = loading;
    options.engine.threads = 3;
    const Module module = Module::load(sample.path(), options);
    EXPECT_EQ(sample.backend->loads, loading == EngineLoading::OnFirstCall ? 0 : 2);
    EXPECT_EQ(module.explain({{ids({8, 5})}, {}}).engine, "large");
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(module({counting(8, 6)})["hidden"].tensor().data_as<float>()[47], 94.0F);
    }
    EXPECT_EQ(sample.backend->loads, loading == EngineLoading::OnFirstCall ? 1 : 2);
    EXPECT_EQ(module({counting(2, 5)})["hidden"].tensor().data_as<float>()[9], 9.0F);  // "small"
    EXPECT_EQ(sample.backend->loads, 2);
    EXPECT_EQ(sample.backend->last_threads, 3);
  }
}

TEST(Module, OneOfManyFirstCallsLoadsTheEngine) {
  SampleBundle sample;
  LoadOptions options;
  options.loading = EngineLoading::OnFirstCall;
  const Module module = Module::load(sample.write(), options);
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        wrong += module({counting(8, 6)})["hidden"].tensor().data_as<float>()[47] != 94.0F;
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(sample.backend->loads, 1);
}

TEST(Module, AnEngineThatCannotBeLoadedLaterFailsItsCallsOnly) {
  SampleBundle sample;
  write_text(sample.source("large"), R"({"broken": "no such device"})");
  LoadOptions options;
  options.loading = EngineLoading::OnFirstCall;
  const Module module = Module::load(sample.write(), options);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(message_of<EngineError>([&] { (void)module({counting(8, 6)}); }),
                AllOf(HasSubstr("graph_0"), HasSubstr("no such device")));
  }
  EXPECT_EQ(sample.backend->loads, 1);  // tried once
  EXPECT_EQ(module({counting(2, 5)})["hidden"].tensor().data_as<float>()[9], 9.0F);
}

TEST(Module, FilesThatWereReplacedSinceAreNotLoaded) {
  SampleBundle sample;
  LoadOptions options;
  options.loading = EngineLoading::OnFirstCall;
  const Module module = Module::load(sample.write(), options);
  write_text(sample.path() / "graph_0" / "large" / "engine.json",
             R"({"factor": 30, "outputs": [0, 0]})");
  EXPECT_THAT(message_of<EngineError>([&] { (void)module({counting(8, 6)}); }),
              HasSubstr("its files were changed or removed after the bundle was opened"));
  EXPECT_EQ(sample.backend->loads, 0);
}

TEST(Module, StridedInputsGiveTheSameValues) {
  SampleBundle sample;
  const Module module = Module::load(sample.write());
  const Tensor base = counting(5, 2);
  const Tensor transposed(base.data(), DType::Int64, {2, 5}, {1, 2}, base.owner());
  const Value result = module({transposed});
  const float* hidden = result["hidden"].tensor().data_as<float>();
  EXPECT_EQ(hidden[1], 2.0F);  // element [0, 1] is base[1, 0]
  EXPECT_EQ(hidden[5], 1.0F);
  EXPECT_EQ(shape_to_string(result["ids"].tensor().strides().span()), "[1, 2]");  // the very input
}

TEST(Module, MissesAreTypedErrorsAndCounted) {
  SampleBundle sample;
  const Module module = Module::load(sample.write());
  const auto miss = [&](std::vector<Value> positional) {
    return message_of<MissError>([&] { (void)module(positional); });
  };
  EXPECT_THAT(miss({ids({9, 5})}),
              AllOf(HasSubstr("axis 0 of ['input_ids'] has size 9"), HasSubstr("b = 1 to 8")));
  EXPECT_THAT(miss({ids({2, 10})}), HasSubstr("s0 = 4 to 9"));
  EXPECT_THAT(miss({zeros({2, 5})}), HasSubstr("float32"));
  EXPECT_THAT(miss({ids({2, 5}), ids({2, 5})}), HasSubstr("the exporter said no"));
  const Tensor bad = Tensor::from(std::span<const std::int64_t>({1, 2, 3, 100}), {1, 4});
  EXPECT_THAT(miss({bad}), HasSubstr("has the value 100 at [0, 3]"));
  EXPECT_THROW((void)module({}), TypeError);
  EXPECT_THROW((void)module({ids({2, 5})}, {{"input_ids", ids({2, 5})}}), TypeError);
  const CallStats stats = module.stats();
  EXPECT_EQ(stats.calls, 5U);
  EXPECT_EQ(stats.misses.at("range"), 2U);
  EXPECT_EQ(stats.misses.at("unknown_graph"), 1U);
  EXPECT_EQ(stats.misses.at("not_tuned"), 1U);
  EXPECT_EQ(stats.misses.at("index_range"), 1U);
}

TEST(Module, ACallThatThePlanLeavesToEagerIsAMissWithoutAModel) {
  SampleBundle sample;
  sample.bundle.graphs[0].plan.entries = {{"small", {{{0, {1, 2}}}}}, {"eager", {}}};
  const Module module = Module::load(sample.write());
  EXPECT_NO_THROW((void)module({ids({2, 5})}));
  EXPECT_THAT(message_of<MissError>([&] {
                (void)module({ids({3, 5})});
              }),
              HasSubstr("graph_0 runs eagerly for these sizes (plan: small for b 1 to 2; eager "
                        "elsewhere), and there is no model"));
  EXPECT_EQ(module.stats().misses.at("not_tuned"), 1U);
}

TEST(Module, AFailingEngineIsNamed) {
  SampleBundle sample;
  write_text(sample.source("small"),
             R"({"factor": 1, "outputs": [0, 0], "failure": "out of luck"})");
  write_text(sample.source("large"), R"({"factor": 1, "outputs": [0]})");
  const Module module = Module::load(sample.write());
  EXPECT_EQ(message_of<EngineError>([&] {
              (void)module({ids({1, 5})});
            }),
            "graph_0: engine small failed: out of luck");
  EXPECT_THAT(message_of<EngineError>([&] {
                (void)module({ids({3, 5})});
              }),
              HasSubstr("engine large failed: it gave 1 tensors, the result has 2"));
  EXPECT_EQ(module.stats().misses.at("engine_failed"), 2U);
}

TEST(Module, EarlierResultsStayUnchanged) {
  SampleBundle sample;
  auto module = std::make_unique<Module>(Module::load(sample.write()));
  const Value first = (*module)({counting(2, 5)});
  const Module copy = *module;
  const Value second = (*module)({ids({2, 5})});
  module.reset();
  EXPECT_EQ(first["hidden"].tensor().data_as<float>()[9], 9.0F);
  EXPECT_EQ(second["hidden"].tensor().data_as<float>()[9], 0.0F);
  EXPECT_NO_THROW((void)copy({ids({2, 5})}));
}

TEST(Module, ThreadOptionReachesTheBackend) {
  SampleBundle sample;
  auto backend = std::make_shared<FakeBackend>();
  register_backend(backend);
  LoadOptions options;
  options.engine.threads = 3;
  (void)Module::load(sample.write(), options);
  EXPECT_EQ(backend->last_threads, 3);
}

// ---- engines that can't be loaded

TEST(MakeRouter, AnEngineThatOthersCoverIsLeftOut) {
  SampleBundle sample;
  write_text(sample.source("small"), R"({"broken": "needs another machine"})");
  const Module module = Module::load(sample.write());
  ASSERT_EQ(module.problems().size(), 1U);
  EXPECT_EQ(module.problems()[0], "graph_0: engine small was left out: needs another machine");
  EXPECT_EQ(module.explain({{ids({1, 5})}, {}}).engine, "large");
}

TEST(MakeRouter, AnEngineThatNothingCoversIsAnError) {
  SampleBundle sample;
  write_text(sample.source("large"), R"({"broken": "needs another machine"})");
  const auto path = sample.write();
  EXPECT_EQ(
      message_of<EngineError>([&] { (void)Module::load(path); }),
      "graph_0: engine large can't be loaded, and the plan has no other for all of its region "
      "(everywhere): needs another machine");
  // Where there is a model, the rest runs eagerly.
  LoadOptions options;
  options.has_model = true;
  std::vector<std::string> problems;
  const auto router = make_router(read_bundle(path), options, &problems);
  EXPECT_EQ(problems.size(), 1U);
  const auto served = router->route(test::Call(test::Named{{"input_ids", ids({1, 5})}}).tree);
  EXPECT_EQ(served.engine_index, 0);
  const auto eager = router->route(test::Call(test::Named{{"input_ids", ids({3, 5})}}).tree);
  EXPECT_FALSE(eager.miss);
  EXPECT_EQ(eager.engine, nullptr);
}

TEST(MakeRouter, WithoutAnyEngineCallsSayWhyTheyRunEagerly) {
  SampleBundle sample;
  for (StoredEngine& engine : sample.bundle.graphs[0].engines) {
    engine.backend = "absent_backend";
  }
  const auto path = sample.write();
  EXPECT_THAT(message_of<EngineError>([&] { (void)Module::load(path); }),
              HasSubstr("libgraphtune_engine_absent_backend.so"));
  LoadOptions options;
  options.has_model = true;
  const auto router = make_router(read_bundle(path), options);
  const auto decision = router->route(test::Call(test::Named{{"input_ids", ids({1, 5})}}).tree);
  ASSERT_TRUE(decision.miss);
  EXPECT_EQ(decision.miss->reason, MissReason::NotTuned);
  EXPECT_THAT(decision.miss->message, HasSubstr("absent_backend"));
}

TEST(MakeRouter, EnginesAfterAnEagerEntryAreNotCountedOn) {
  SampleBundle sample;
  write_text(sample.source("small"), R"({"broken": "needs another machine"})");
  sample.bundle.graphs[0].plan.entries = {
      {"small", {{{0, {1, 2}}}}}, {"eager", {{{0, {1, 4}}}}}, {"large", {}}};
  EXPECT_THROW((void)Module::load(sample.write()), EngineError);
}

TEST(MakeRouter, AnEngineOutsideThePlanIsNotLoaded) {
  SampleBundle sample;
  write_text(sample.source("small"), R"({"broken": "must not be loaded"})");
  sample.bundle.graphs[0].plan.entries = {{"large", {}}};
  EXPECT_TRUE(Module::load(sample.write()).problems().empty());
}

class NativeBackend : public FakeBackend {
 public:
  NativeBackend() : FakeBackend("fake_native") {}
  [[nodiscard]] bool loads_native_code() const noexcept override { return true; }
};

/// All engines of backend `backend`, flagged or not, built on a machine with `machine_id`.
std::filesystem::path native_bundle(SampleBundle& sample, const std::string& backend, bool flagged,
                                    const std::string& machine_id) {
  register_backend(std::make_shared<NativeBackend>());
  for (StoredEngine& engine : sample.bundle.graphs[0].engines) {
    engine.backend = backend;
    engine.native_code = flagged;
  }
  sample.bundle.hardware["machine_id"] = machine_id;
  return sample.write();
}

TEST(MakeRouter, NativeCodeFromElsewhereNeedsTheCallersWord) {
  const std::string here = describe_hardware().at("machine_id");
  const std::string elsewhere(64, '0');
  struct Case {
    const char* backend;
    bool flagged;
  };
  // The manifest's flag may be false: the backend knows better.
  for (const Case& c :
       {Case{"fake_native", true}, Case{"fake_native", false}, Case{"fake", true}}) {
    SampleBundle sample;
    const auto path = native_bundle(sample, c.backend, c.flagged, elsewhere);
    LoadOptions options;
    EXPECT_THAT(
        message_of<BundleError>([&] { (void)Module::load(path, options); }),
        AllOf(HasSubstr("native code from another machine"), HasSubstr("allow_native_code")));
    options.allow_native_code = true;
    EXPECT_NO_THROW((void)Module::load(path, options));
    options.allow_native_code = false;
    EXPECT_THROW((void)Module::load(path, options), BundleError);
  }
  if (!here.empty()) {
    SampleBundle sample;
    EXPECT_NO_THROW((void)Module::load(native_bundle(sample, "fake_native", true, here)));
  }
  SampleBundle nameless;  // a machine without identity is no machine's equal
  EXPECT_THROW((void)Module::load(native_bundle(nameless, "fake_native", true, "")), BundleError);
  SampleBundle plain;
  EXPECT_NO_THROW((void)Module::load(native_bundle(plain, "fake", false, elsewhere)));
}

TEST(MakeRouter, NativeCodeForAnotherProcessorIsNotLoaded) {
  SampleBundle sample;
  sample.bundle.hardware["instruction_set"] += " hyperspeed_512";
  const auto path =
      native_bundle(sample, "fake_native", true, describe_hardware().at("machine_id"));
  LoadOptions options;
  options.allow_native_code = true;
  EXPECT_THAT(message_of<EngineError>([&] { (void)Module::load(path, options); }),
              HasSubstr("hyperspeed_512"));
}

class PortableCodeBackend : public FakeBackend {
 public:
  PortableCodeBackend() : FakeBackend("fake_portable") {}
  [[nodiscard]] bool loads_native_code() const noexcept override { return true; }
  [[nodiscard]] bool is_portable() const noexcept override { return true; }
};

TEST(MakeRouter, PortableCodeNeedsTheCallersWordButNoProcessor) {
  register_backend(std::make_shared<PortableCodeBackend>());
  SampleBundle sample;
  sample.bundle.hardware["instruction_set"] += " hyperspeed_512";
  const auto path = native_bundle(sample, "fake_portable", true, std::string(64, '0'));
  EXPECT_THROW((void)Module::load(path), BundleError);
  LoadOptions options;
  options.allow_native_code = true;
  EXPECT_NO_THROW((void)Module::load(path, options));
}

// ---- threads

TEST(Module, ACallAllocatesItsResultsOnly) {
  if (!test::counts_allocations()) {
    GTEST_SKIP() << "allocations can't be counted in this build";
  }
  SampleBundle sample;
  const Module module = Module::load(sample.write());
  const Arguments arguments{{counting(2, 5)}, {}};
  const RoutedGraph& graph = module.router().graphs()[0];
  const std::vector<Tensor> inputs = {arguments.positional[0].tensor()};
  const auto allocations_of = [](const auto& function) {
    function();  // the thread's memory
    const std::uint64_t before = test::allocation_count();
    function();
    return test::allocation_count() - before;
  };
  const std::uint64_t results = allocations_of([&] {
    std::vector<Tensor> outputs;
    run_engine(*graph.engines[0].engine, graph, inputs, outputs);
    (void)unflatten(graph.output_tree, std::move(outputs));
  });
  EXPECT_GT(results, 0U);
  EXPECT_EQ(allocations_of([&] { (void)module.call(arguments); }), results);
}

TEST(Module, EightThreadsGetTheResultsOfOne) {
  SampleBundle sample;
  const Module module = Module::load(sample.write());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 100; ++i) {
        const std::int64_t batch = 1 + (thread + i) % 8;
        const Tensor input = counting(batch, 4);
        const Value result = module({input});
        const float expected = static_cast<float>((batch * 4 - 1) * (batch <= 2 ? 1 : 2));
        wrong += result["hidden"].tensor().data_as<float>()[batch * 4 - 1] == expected ? 0 : 1;
        wrong += result["ids"].tensor().data() == input.data() ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
  const CallStats stats = module.stats();
  EXPECT_EQ(stats.calls, 800U);
  EXPECT_EQ(stats.by_graph.at("graph_0").at("small"), 200U);
  EXPECT_EQ(stats.by_graph.at("graph_0").at("large"), 600U);
}

/// An engine that calls a module itself.
class Outer : public Engine {
 public:
  explicit Outer(Module inner) : inner_(std::move(inner)) {}
  [[nodiscard]] std::string_view backend() const noexcept override { return "outer"; }
  void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) override {
    const Value result = inner_({inputs[0]});
    outputs = {result["hidden"].tensor(), result["ids"].tensor()};
  }

 private:
  Module inner_;
};

class OuterBackend : public FakeBackend {
 public:
  explicit OuterBackend(Module inner) : FakeBackend("fake_outer"), inner_(std::move(inner)) {}
  [[nodiscard]] std::shared_ptr<Engine> load(const std::filesystem::path&,
                                             const EngineOptions&) override {
    return std::make_shared<Outer>(inner_);
  }

 private:
  Module inner_;
};

TEST(Module, AnEngineMayCallAModule) {
  SampleBundle sample;
  const auto path = sample.write();
  register_backend(std::make_shared<OuterBackend>(Module::load(path)));
  for (StoredEngine& engine : sample.bundle.graphs[0].engines) {
    engine.backend = "fake_outer";
  }
  const Module outer = Module::load(sample.write());
  const Tensor input = counting(2, 5);
  const Value result = outer({input});
  EXPECT_EQ(result["hidden"].tensor().data_as<float>()[9], 9.0F);
  EXPECT_EQ(result["ids"].tensor().data(), input.data());
}

}  // namespace
}  // namespace graphtune

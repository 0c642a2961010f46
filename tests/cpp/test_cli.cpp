// The command line as users start it: a process, its output and its exit status. Left out of builds
// without it.
#ifdef GRAPHTUNE_TOOL
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <sys/wait.h>

#include "graphtune/error.h"
#include "graphtune/json_view.h"
#include "graphtune/modules.h"
#include "graphtune/safetensors.h"
#include "graphtune/tensor_spec.h"
#include "sample_bundle.h"

namespace graphtune {
namespace {

namespace fs = std::filesystem;
using test::Call;
using test::ids;
using test::Named;
using test::Result;
using test::SampleBundle;
using test::write_text;
using test::zeros;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

struct Finished {
  int status = -1;
  std::string out;
  std::string err;
};

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return result + "'";
}

/// Starts the tool; the fake backend is found as an engine library.
Finished run_tool(const std::vector<std::string>& arguments, const std::string& redirection = {}) {
  const test::TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const fs::path err = folder.path() / "err";
  // A tool that waits for ever fails its test.
  std::string command = "GRAPHTUNE_ENGINE_PATH=" + quoted(GRAPHTUNE_TEST_ENGINES) + " timeout 60 " +
                        quoted(GRAPHTUNE_TOOL);
  for (const std::string& argument : arguments) {
    command += " " + quoted(argument);
  }
  command +=
      " >" + quoted(out.string()) + " 2>" + quoted(err.string()) + " </dev/null " + redirection;
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, test::read_text(out), test::read_text(err)};
}

Tensor counting(std::int64_t batch, std::int64_t length) {
  Tensor tensor = ids({batch, length});
  for (std::int64_t i = 0; i < batch * length; ++i) {
    tensor.data_as<std::int64_t>()[i] = i;
  }
  return tensor;
}

Tensor find(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [key, tensor] : tensors) {
    if (key == name) {
      return tensor;
    }
  }
  ADD_FAILURE() << "no tensor " << name;
  return zeros({1});
}

class Cli : public ::testing::Test {
 protected:
  Cli() : bundle_(sample_.write().string()) {}

  std::string write_input(const NamedTensors& tensors) {
    const fs::path path = sample_.folder() / "input.safetensors";
    write_safetensors(path, tensors);
    return path.string();
  }
  [[nodiscard]] std::string file(const char* name) const {
    return (sample_.folder() / name).string();
  }

  SampleBundle sample_;
  std::string bundle_;
};

TEST_F(Cli, HelpAndVersionGoToStdout) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--help"},
                                                    {"inspect", "--help"},
                                                    {"run", "--help"},
                                                    {"bench", "--help"}}) {
    const Finished help = run_tool(arguments);
    EXPECT_EQ(help.status, 0);
    EXPECT_EQ(help.err, "");
    EXPECT_THAT(help.out, HasSubstr("graphtune"));
  }
  EXPECT_THAT(run_tool({"run", "--help"}).out,
              AllOf(HasSubstr("--input"), HasSubstr("--repeat"), HasSubstr("0/input_ids")));
  const Finished version = run_tool({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.out, StartsWith("graphtune 0."));
}

TEST_F(Cli, UsageErrorsHaveStatusTwo) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{},
        {"fly"},
        {"inspect"},
        {"run", bundle_},
        {"inspect", bundle_, "--fast"},
        {"run", bundle_, "--input", "x", "--repeat", "0"},
        {"run", bundle_, "--input", ""},
        {"run", bundle_, "--input", "x", "--output", ""},
        {"run", bundle_, "--input", "x", "--report", ""},
        {"run", bundle_, "--input", "x", "--graph", ""},
        {"run", bundle_, "--input", "x", "--loading", "later"},
        {"bench", bundle_, "--input", ""},
        {"inspect", ""},
        {"bench", bundle_, "--seconds", "soon"}}) {
    const Finished wrong = run_tool(arguments);
    EXPECT_EQ(wrong.status, 2);
    EXPECT_THAT(wrong.err, AllOf(StartsWith("graphtune: "), HasSubstr("--help")));
    EXPECT_EQ(wrong.out, "");
  }
}

TEST_F(Cli, InspectShowsEverything) {
  const Finished shown = run_tool({"inspect", bundle_});
  EXPECT_EQ(shown.status, 0);
  EXPECT_EQ(shown.err, "");
  EXPECT_THAT(shown.out, HasSubstr("format version 1, 3 files, 1064 bytes"));
  EXPECT_THAT(shown.out, HasSubstr("Module sample(input_ids, mask=None), strict"));
  EXPECT_THAT(shown.out, HasSubstr("Built with graphtune 0.1.0"));
  EXPECT_THAT(shown.out, HasSubstr("graph_0: 3 samples, batch size 1 to 8\nInputs\nTensors:\n╒"));
  EXPECT_THAT(shown.out, HasSubstr("│ ['input_ids'] │ kwargs_input_ids │ ['batch0', 'dim1'] │"));
  EXPECT_THAT(shown.out, HasSubstr("  ['input_ids'] [b, s0]\n  b = 1 to 8\n  s0 = 4 to 9\n"
                                   "  values of ['input_ids']: 0 to 99\n"
                                   "Plan: small for b 1 to 2; large elsewhere\n"));
  EXPECT_THAT(shown.out, HasSubstr("  small (backend fake)\n    graph_0/small/engine.json: "));
  EXPECT_THAT(shown.out, HasSubstr("    build_seconds: 1.5\n"));
  EXPECT_THAT(shown.out, HasSubstr("Stays eager: the exporter said no"));

  const Finished json = run_tool({"inspect", bundle_, "--json"});
  EXPECT_EQ(json.status, 0);
  const Json parsed = parse_json(json.out, "inspect");
  EXPECT_EQ(parsed["module"], "sample");
  EXPECT_EQ(parsed["graphs"][0]["plan"][0]["engine"], "small");
  EXPECT_EQ(parsed["graphs"][0]["engines"][0]["info"]["build_seconds"], 1.5);
  EXPECT_EQ(parsed["graphs"][1]["eager_reason"], "the exporter said no");
  EXPECT_EQ(parsed["graphs"][0]["contract"]["symbols"]["s0"], Json({4, 9}));
}

TEST_F(Cli, ErrorsGoToStderrWithStatusOne) {
  const auto error = [](const std::vector<std::string>& arguments) {
    const Finished failed = run_tool(arguments);
    EXPECT_EQ(failed.status, 1);
    EXPECT_THAT(failed.err, StartsWith("graphtune: "));
    return failed.err;
  };
  EXPECT_THAT(error({"inspect", "/nowhere"}), HasSubstr("/nowhere does not exist"));
  EXPECT_THAT(error({"inspect", sample_.folder().string()}), HasSubstr("has no manifest.json"));
  EXPECT_THAT(error({"run", bundle_, "--input", "/nowhere.safetensors"}),
              HasSubstr("/nowhere.safetensors"));
  const std::string input = write_input({{"input_ids", ids({2, 5})}});
  write_text(sample_.path() / "graph_0/large/data/weights.bin", std::string(1000, 'x'));
  for (const char* command : {"inspect", "bench"}) {
    EXPECT_THAT(error({command, bundle_}), HasSubstr("weights.bin: its SHA-256"));
  }
  EXPECT_THAT(error({"run", bundle_, "--input", input}), HasSubstr("weights.bin: its SHA-256"));
}

TEST_F(Cli, WhatCanNotBePrintedIsAnError) {
  const std::string input = write_input({{"input_ids", ids({2, 5})}});
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"},
        {"--version"},
        {"inspect", bundle_},
        {"inspect", bundle_, "--json"},
        {"run", bundle_, "--input", input},
        {"bench", bundle_, "--input", input, "--seconds", "0.001"}}) {
    for (const char* out : {">/dev/full", ">&-"}) {
      if (out == std::string(">/dev/full") && !fs::is_character_file("/dev/full")) {
        continue;  // a machine without this device
      }
      const Finished failed = run_tool(arguments, out);
      EXPECT_EQ(failed.status, 1) << arguments.front() << out;
      EXPECT_THAT(failed.err, HasSubstr("graphtune: standard output can't be written: "));
    }
  }
}

TEST_F(Cli, AClosedStandardOutputIsNoFileToWriteTo) {
  const std::string input = write_input({{"input_ids", ids({2, 5})}});
  const std::string output = file("out.safetensors");
  EXPECT_EQ(run_tool({"run", bundle_, "--input", input, "--output", output}, ">&-").status, 1);
  EXPECT_FALSE(fs::exists(output));
}

TEST_F(Cli, FilesThatCanNotBeWrittenAreAnError) {
  const std::string input = write_input({{"input_ids", ids({2, 5})}});
  const fs::path pipe = sample_.folder() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const fs::path link = sample_.folder() / "device";
  fs::create_symlink("/dev/null", link);
  for (const char* option : {"--output", "--report"}) {
    for (const std::string& path :
         {pipe.string(), link.string(), sample_.folder().string(), file("nowhere/out")}) {
      const Finished failed = run_tool({"run", bundle_, "--input", input, option, path});
      EXPECT_EQ(failed.status, 1) << option << path;
      EXPECT_THAT(failed.err, AllOf(StartsWith("graphtune: "), HasSubstr(path)));
    }
  }
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_TRUE(fs::is_symlink(link));
}

TEST_F(Cli, ALinkToTheResultsStaysALink) {
  const std::string input = write_input({{"input_ids", ids({2, 5})}});
  const fs::path link = sample_.folder() / "latest";
  write_text(file("out"), "old");
  fs::create_symlink("out", link);
  EXPECT_EQ(run_tool({"run", bundle_, "--input", input, "--output", link.string()}).status, 0);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_safetensors(file("out")).size(), 2U);
}

TEST_F(Cli, APipeIsNotWaitedFor) {
  const fs::path pipe = sample_.folder() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const char* command : {"run", "bench"}) {
    const Finished failed = run_tool({command, bundle_, "--input", pipe.string()});
    EXPECT_EQ(failed.status, 1);
    EXPECT_THAT(failed.err, HasSubstr(pipe.string() + " is a pipe, not a regular file"));
  }
  EXPECT_EQ(run_tool({"inspect", pipe.string()}).status, 1);
  EXPECT_THAT(run_tool({"run", bundle_, "--input", "/dev/zero"}).err, HasSubstr("is a device"));
}

TEST_F(Cli, RunGivesTheResults) {
  const std::string input = write_input({{"input_ids", counting(2, 5)}});
  const Finished done =
      run_tool({"run", bundle_, "--input", input, "--output", file("out.safetensors"), "--report",
                file("report.json"), "--repeat", "3"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.err, "");
  EXPECT_THAT(done.out,
              HasSubstr("call: input_ids [2, 5] int64 -> hidden [2, 5] float32, ids [2, 5] int64\n"
                        "  graph_0 small: "));
  EXPECT_THAT(done.out, HasSubstr(" ms median of 3, best "));
  const auto written = read_safetensors(file("out.safetensors"));
  ASSERT_EQ(written.size(), 2U);
  EXPECT_EQ(find(written, "hidden").data_as<float>()[9], 9.0F);
  EXPECT_EQ(find(written, "ids").data_as<std::int64_t>()[9], 9);
  const Json report = parse_json(test::read_text(file("report.json")), "report");
  ASSERT_EQ(report["calls"].size(), 1U);
  EXPECT_EQ(report["calls"][0]["engine"], "small");
  EXPECT_GT(report["calls"][0]["median_seconds"].get<double>(), 0);
  EXPECT_GE(report["calls"][0]["median_seconds"], report["calls"][0]["best_seconds"]);
  EXPECT_EQ(report["calls"][0]["outputs"]["hidden"]["shape"], Json({2, 5}));
}

TEST_F(Cli, RunTakesSeveralCallsInTheOrderOfTheirNumbers) {
  const std::string input = write_input({{"10/input_ids", counting(1, 4)},
                                         {"2/input_ids", counting(8, 6)},
                                         {"0/input_ids", counting(2, 5)}});
  const Finished done =
      run_tool({"run", bundle_, "--input", input, "--output", file("out.safetensors")});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_LT(done.out.find("call 0: "), done.out.find("call 2: "));
  EXPECT_LT(done.out.find("call 2: "), done.out.find("call 10: "));
  EXPECT_THAT(done.out, HasSubstr("  graph_0 large: "));
  EXPECT_THAT(done.out, HasSubstr("3 calls, "));
  const auto written = read_safetensors(file("out.safetensors"));
  EXPECT_EQ(written.size(), 6U);
  EXPECT_EQ(find(written, "2/hidden").data_as<float>()[47], 94.0F);
  EXPECT_EQ(find(written, "10/hidden").data_as<float>()[3], 3.0F);
}

TEST_F(Cli, NamesMayBeParametersPositionsLeavesAndLocators) {
  for (const char* name : {"input_ids", "0", "args_0", "kwargs_input_ids", "['input_ids']"}) {
    const std::string input = write_input({{name, counting(2, 5)}});
    const Finished done = run_tool({"run", bundle_, "--input", input});
    EXPECT_EQ(done.status, 0) << name << ": " << done.err;
  }
  const auto error = [&](const NamedTensors& tensors) {
    const Finished failed = run_tool({"run", bundle_, "--input", write_input(tensors)});
    EXPECT_EQ(failed.status, 1);
    return failed.err;
  };
  EXPECT_THAT(
      error({{"tokens", ids({2, 5})}}),
      HasSubstr("call: got an unexpected keyword argument 'tokens'; known are input_ids, mask"));
  EXPECT_THAT(error({{"['tokens']", ids({2, 5})}}),
              AllOf(HasSubstr("no graph takes tensors named ['tokens']"),
                    HasSubstr("graph_0: input_ids"), HasSubstr("graph_1: input_ids, mask")));
  EXPECT_THAT(error({{"1", ids({2, 5})}}), HasSubstr("no graph takes tensors named 1"));
  EXPECT_THAT(error({{"0/input_ids", ids({2, 5})}, {"input_ids", ids({2, 5})}}),
              HasSubstr("'input_ids' has none"));
}

TEST_F(Cli, ACallOutsideTheBundleIsOneClearError) {
  const Finished range =
      run_tool({"run", bundle_, "--input", write_input({{"0/input_ids", ids({9, 5})}})});
  EXPECT_EQ(range.status, 1);
  EXPECT_THAT(range.err, AllOf(HasSubstr("graphtune: call 0: axis 0 of ['input_ids'] has size 9"),
                               HasSubstr("b = 1 to 8")));
  const Finished dtype =
      run_tool({"run", bundle_, "--input", write_input({{"input_ids", zeros({2, 5})}})});
  EXPECT_EQ(dtype.status, 1);
  EXPECT_THAT(dtype.err, HasSubstr("float32"));
  const Finished value = run_tool(
      {"run", bundle_, "--input", write_input({{"input_ids", counting(8, 9)}}), "--repeat", "2"});
  EXPECT_EQ(value.status, 0) << value.err;  // 71 is within 0 to 99
  const Finished eager =
      run_tool({"run", bundle_, "--input",
                write_input({{"input_ids", ids({1, 4})}, {"mask", ids({1, 4})}})});
  EXPECT_EQ(eager.status, 1);
  EXPECT_THAT(eager.err, HasSubstr("the exporter said no"));
}

TEST_F(Cli, BenchMeasuresSmallMiddleAndLarge) {
  const Finished done = run_tool({"bench", bundle_, "--seconds", "0.002"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("Median ms"));
  for (const char* sizes : {"b 1, s0 4", "b 3, s0 6", "b 8, s0 9", "b 2, s0 9"}) {
    EXPECT_THAT(done.out, HasSubstr(sizes));
  }
  EXPECT_THAT(done.err, HasSubstr("graph_1 is left out"));
  const Finished file = run_tool({"bench", bundle_, "--seconds", "0.002", "--input",
                                  write_input({{"0/input_ids", ids({2, 5})}})});
  EXPECT_EQ(file.status, 0) << file.err;
  EXPECT_THAT(file.out, AllOf(HasSubstr("0: input_ids [2, 5] int64"), HasSubstr("small")));
}

TEST_F(Cli, NativeCodeFromElsewhereNeedsTheFlag) {
  sample_.bundle.graphs[0].engines[0].native_code = true;
  sample_.bundle.graphs[0].engines[1].native_code = true;
  sample_.bundle.hardware["machine_id"] = std::string(64, '0');
  sample_.write();
  const std::string input = write_input({{"input_ids", ids({2, 5})}});
  const Finished refused = run_tool({"run", bundle_, "--input", input});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("native code"), HasSubstr("--allow-native-code")));
  EXPECT_EQ(run_tool({"run", bundle_, "--input", input, "--allow-native-code"}).status, 0);
  EXPECT_THAT(run_tool({"inspect", bundle_}).out,
              AllOf(HasSubstr("small (backend fake), native code"), HasSubstr("another machine")));
}

TEST_F(Cli, AnEngineThatWasLeftOutIsTold) {
  write_text(sample_.source("small"), R"({"broken": "needs another machine"})");
  sample_.write();
  const Finished done =
      run_tool({"run", bundle_, "--input", write_input({{"input_ids", ids({2, 5})}})});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.err,
              HasSubstr("graphtune: graph_0: engine small was left out: needs another machine"));
  EXPECT_THAT(done.out, HasSubstr("graph_0 large: "));
}

TEST_F(Cli, EnginesAreLoadedWhenTheCallerSays) {
  write_text(sample_.source("small"), R"({"broken": "needs another machine"})");
  sample_.write();
  const std::string input = write_input({{"input_ids", ids({2, 5})}});
  for (const char* loading : {"in-turn", "in-parallel"}) {
    const Finished done = run_tool({"run", bundle_, "--input", input, "--loading", loading});
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_THAT(done.err, HasSubstr("engine small was left out"));
  }
  const Finished late = run_tool({"run", bundle_, "--input", input, "--loading", "on-first-call"});
  EXPECT_EQ(late.status, 1);  // the engine of this call is the broken one
  EXPECT_THAT(late.err, HasSubstr("needs another machine"));
}

/// forward(inputs, scale): an object that holds tensors, and a constant.
Named nested(std::int64_t batch, double scale) {
  return {{"inputs", Value::object("m.Inputs", {{Step::attribute("input_ids"), ids({batch, 4})},
                                                {Step::attribute("mask"), zeros({batch, 4})}})},
          {"scale", scale}};
}

TEST_F(Cli, NestedCallsAreBuiltAfterTheGraph) {
  SampleBundle sample;
  sample.bundle.signature = Signature();  // of whatever arguments
  sample.bundle.graphs.clear();
  for (const int i : {0, 1}) {
    const std::string name = "graph_" + std::to_string(i);
    const double scale = i == 0 ? 1.0 : 3.0;
    GraphSpec spec(name, SampleMetadata(Call(nested(1, scale)).tree, true, 1),
                   SampleMetadata(Result(zeros({1, 4})).tree, true, 1));
    spec.update(SampleMetadata(Call(nested(2, scale)).tree, true, 2),
                SampleMetadata(Result(zeros({2, 4})).tree, true, 2));
    write_text(sample.source(name), R"({"outputs": [0], "factor": )" + std::to_string(scale) + "}");
    sample.sources[name + "/fake"] = sample.source(name).parent_path();
    StoredGraph graph{spec, {}, {{"fake", "fake", name + "/fake", false, "{}"}}, {}, {}};
    graph.plan.entries = {{"fake", {}}};
    sample.bundle.graphs.push_back(std::move(graph));
  }
  const std::string bundle = sample.write().string();
  const std::string input = write_input(
      {{"['inputs'].input_ids", counting(2, 4)}, {"kwargs_inputs.mask", zeros({2, 4})}});
  const auto last = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"run", bundle,     "--input",
                                          input, "--output", file("out.safetensors")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished done = run_tool(arguments);
    EXPECT_EQ(done.status, 0) << done.err;
    return find(read_safetensors(file("out.safetensors")), "outputs").data_as<float>()[7];
  };
  EXPECT_EQ(last({}), 7.0F);
  EXPECT_EQ(last({"--graph", "graph_1"}), 21.0F);
  const Finished unknown = run_tool({"run", bundle, "--input", input, "--graph", "graph_7"});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("there is no graph graph_7"),
                                 HasSubstr("graph_1: inputs.input_ids")));
}

TEST_F(Cli, AFolderOfSeveralModulesIsListedAndOneIsChosenByName) {
  const std::string folder = file("pipeline.modules");
  const std::vector<ModuleSource> both = {{"encoder", &sample_.bundle, &sample_.sources},
                                          {"head", &sample_.bundle, &sample_.sources}};
  write_modules(both, folder);
  const Finished listed = run_tool({"inspect", folder});
  EXPECT_EQ(listed.status, 0) << listed.err;
  EXPECT_THAT(listed.out, AllOf(HasSubstr("2 modules"), HasSubstr("encoder"), HasSubstr("head"),
                                HasSubstr("graph_0"), HasSubstr("small"), HasSubstr("eager")));
  const Json json = parse_json(run_tool({"inspect", folder, "--json"}).out, "stdout");
  EXPECT_EQ(json["modules"][1]["name"], "head");
  EXPECT_EQ(json["modules"][1]["graphs"][1]["eager_reason"], "the exporter said no");
  EXPECT_THAT(run_tool({"inspect", folder, "--module", "head"}).out,
              HasSubstr("Module sample(input_ids, mask=None), strict"));

  const std::string input = write_input({{"input_ids", counting(2, 5)}});
  const Finished done = run_tool({"run", folder, "--module", "head", "--input", input});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("  graph_0 small: "));
  const auto error = [&](const std::string& path, std::vector<std::string> more) {
    more.insert(more.begin(), {"run", path, "--input", input});
    const Finished failed = run_tool(more);
    EXPECT_EQ(failed.status, 1);
    return failed.err;
  };
  EXPECT_THAT(error(folder, {}),
              HasSubstr("holds 2 modules: choose one with --module: encoder, head"));
  EXPECT_THAT(error(folder, {"--module", "tail"}), HasSubstr("no module 'tail'"));
  EXPECT_THAT(error(bundle_, {"--module", "head"}), HasSubstr("the bundle of one module, sample"));
  EXPECT_EQ(run_tool({"run", bundle_, "--module", "sample", "--input", input}).status, 0);
}

}  // namespace
}  // namespace graphtune

#endif  // GRAPHTUNE_TOOL

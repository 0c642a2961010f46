// The command line: one file a command.
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commands.h"
#include "graphtune/version.h"

namespace {

using namespace graphtune::tools;

void add_bundle(CLI::App& command, std::filesystem::path& bundle) {
  command.add_option("BUNDLE", bundle, "A bundle's folder")->required();
}

template <typename Options>
void add_engine_options(CLI::App& command, Options& options) {
  command
      .add_option("--threads", options.threads, "Threads of each engine; 0: the runtime's choice")
      ->check(CLI::Range(0, 4096));
  command.add_flag(
      "--allow-native-code", options.allow_native_code,
      "Load native code (AOTInductor) from a bundle that was built on another machine");
}

void add_inspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect", "Show what is in a bundle");
  add_bundle(*command, options->bundle);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { inspect(*options); });
}

void add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Run the calls of a safetensors file");
  add_bundle(*command, options->bundle);
  command->add_option("--input", options->input, "Safetensors file with the calls")->required();
  command->add_option("--output", options->output, "Safetensors file for the results");
  command->add_option("--report", options->report, "JSON file for what was measured");
  command->add_option("--graph", options->graph, "The graph that gives the calls their constants");
  command
      ->add_option("--repeat", options->repeat, "Times each call, after one to warm up; default 1")
      ->check(CLI::Range(1, 1'000'000));
  add_engine_options(*command, *options);
  command->footer(naming_help());
  command->callback([options] { run(*options); });
}

void add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand(
      "bench", "Measure each graph at small, middle and large sizes, or the calls of a file");
  add_bundle(*command, options->bundle);
  command->add_option("--input", options->input, "Safetensors file with calls to measure instead");
  command->add_option("--seconds", options->seconds, "Time for each size; default 1")
      ->check(CLI::Range(0.001, 3600.0));
  add_engine_options(*command, *options);
  command->footer(naming_help());
  command->callback([options] { bench(*options); });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    CLI::App app("Inspects, runs and measures bundles of modules that graphtune tuned.",
                 "graphtune");
    app.set_version_flag("--version", "graphtune " GRAPHTUNE_VERSION);
    app.require_subcommand(1);
    add_inspect(app);
    add_run(app);
    add_bench(app);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) {
        return app.exit(error);  // --help and --version
      }
      fmt::print(stderr, "graphtune: {}\nRun 'graphtune --help' or 'graphtune COMMAND --help'.\n",
                 error.what());
      return 2;
    }
    return 0;
  } catch (const std::exception& error) {
    std::fflush(stdout);
    fmt::print(stderr, "graphtune: {}\n", error.what());
    return 1;
  }
}

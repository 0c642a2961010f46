// The command line: one file a command.
#include <cerrno>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "commands.h"
#include "graphtune/version.h"
#include "output.h"

namespace {

using namespace graphtune::tools;

/// An empty text is what an unset variable of a script gives, and never meant.
CLI::Validator not_empty() {
  return {[](const std::string& text) {
            return text.empty() ? std::string("must not be empty") : std::string();
          },
          ""};
}

template <typename Options>
void add_bundle(CLI::App& command, Options& options) {
  command.add_option("BUNDLE", options.bundle, "A bundle's folder, or one of several modules")
      ->required()
      ->check(not_empty());
  command.add_option("--module", options.module, "The module, where the folder holds several")
      ->check(not_empty());
}

void add_load_options(CLI::App& command, graphtune::LoadOptions& options) {
  using graphtune::EngineLoading;
  static const std::map<std::string, EngineLoading> choices = {
      {"in-turn", EngineLoading::InTurn},
      {"in-parallel", EngineLoading::InParallel},
      {"on-first-call", EngineLoading::OnFirstCall}};
  command
      .add_option("--threads", options.engine.threads,
                  "Threads of each engine; 0: those that it was tuned with")
      ->check(CLI::Range(0, 4096));
  command
      .add_option_function<std::string>(
          "--loading", [&options](const std::string& text) { options.loading = choices.at(text); },
          "When the engines are loaded; default in-turn")
      ->check(CLI::IsMember(choices));
  command.add_flag_callback(
      "--allow-native-code", [&options] { options.allow_native_code = true; },
      "Load native code (AOTInductor) from a bundle that was built on another machine");
}

void add_inspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect", "Show what is in a bundle");
  add_bundle(*command, *options);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { inspect(*options); });
}

void add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Run the calls of a safetensors file");
  add_bundle(*command, *options);
  command->add_option("--input", options->input, "Safetensors file with the calls")
      ->required()
      ->check(not_empty());
  command->add_option("--output", options->output, "Safetensors file for the results")
      ->check(not_empty());
  command->add_option("--report", options->report, "JSON file for what was measured")
      ->check(not_empty());
  command->add_option("--graph", options->graph, "The graph that gives the calls their constants")
      ->check(not_empty());
  command
      ->add_option("--repeat", options->repeat, "Times each call, after one to warm up; default 1")
      ->check(CLI::Range(1, 1'000'000));
  add_load_options(*command, options->load);
  command->footer(naming_help());
  command->callback([options] { run(*options); });
}

void add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand(
      "bench", "Measure each graph at small, middle and large sizes, or the calls of a file");
  add_bundle(*command, *options);
  command->add_option("--input", options->input, "Safetensors file with calls to measure instead")
      ->check(not_empty());
  command->add_option("--seconds", options->seconds, "Time for each size; default 1")
      ->check(CLI::Range(0.001, 3600.0));
  add_load_options(*command, options->load);
  command->footer(naming_help());
  command->callback([options] { bench(*options); });
}

/// A closed stdin, stdout or stderr leaves its number to the next file that is opened: what is
/// printed would go into it.
void reserve_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) {
      (void)::open("/dev/null", O_RDONLY);  // printing there still fails
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  reserve_standard_streams();
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
        std::ostringstream text;
        const int status = app.exit(error, text, text);  // --help and --version
        print_out("{}", text.str());
        flush_output();
        return status;
      }
      fmt::print(stderr, "graphtune: {}\nRun 'graphtune --help' or 'graphtune COMMAND --help'.\n",
                 error.what());
      return 2;
    }
    flush_output();
    return 0;
  } catch (const std::exception& error) {
    std::fflush(stdout);
    fmt::print(stderr, "graphtune: {}\n", error.what());
    return 1;
  }
}

// What two threads get out of one module, on an engine that does nothing. In one process and in
// turns of milliseconds: one core of a shared machine may be faster than the other for a while, and
// both are faster at another minute.
#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "workloads.h"

namespace graphtune::workloads {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTurn{3};
constexpr int kRounds = 101;

/// Calls a second of a thread for one turn.
double rate_of_calls(const Module& module, const Arguments& arguments) {
  const Clock::time_point start = Clock::now();
  Clock::time_point now = start;
  std::size_t calls = 0;
  while (now < start + kTurn) {
    for (int i = 0; i < 100; ++i) {
      benchmark::DoNotOptimize(module.call(arguments));
    }
    calls += 100;
    now = Clock::now();
  }
  return static_cast<double>(calls) / std::chrono::duration<double>(now - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Rounds of: the first thread alone, the second alone, both. `two_over_one` is the median of
/// both's calls a second over the mean of the two alone.
void module_call_by_two_threads(benchmark::State& state) {
  const IdleBundle bundle;
  for (auto _ : state) {
    std::array<std::array<std::vector<double>, 2>, 2> rates;  // alone or both, thread -> rounds
    std::barrier turn(2);
    const auto work = [&](std::size_t own) {
      const Arguments arguments = IdleBundle::call();
      for (int round = 0; round < kRounds; ++round) {
        for (const std::size_t alone : {std::size_t{0}, std::size_t{1}}) {
          turn.arrive_and_wait();
          if (alone == own) {
            rates[0][own].push_back(rate_of_calls(bundle.module(), arguments));
          }
        }
        turn.arrive_and_wait();
        rates[1][own].push_back(rate_of_calls(bundle.module(), arguments));
      }
    };
    std::thread other(work, 1);
    work(0);
    other.join();
    std::vector<double> gains;
    for (std::size_t round = 0; round < kRounds; ++round) {
      gains.push_back(2 * (rates[1][0][round] + rates[1][1][round]) /
                      (rates[0][0][round] + rates[0][1][round]));
    }
    state.counters["two_over_one"] = median(gains);
  }
}
BENCHMARK(module_call_by_two_threads)->Iterations(1)->UseRealTime();

}  // namespace
}  // namespace graphtune::workloads

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "graphtune/striped_counters.h"

namespace graphtune {
namespace {

TEST(StripedCounters, StartAtZeroAndCountByThemselves) {
  for (const std::size_t count : {1, 7, 8, 9, 200}) {
    StripedCounters counters(count);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(counters.total(i), 0U);
      for (std::size_t n = 0; n <= i; ++n) {
        counters.increment(i);
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(counters.total(i), i + 1) << "counter " << i << " of " << count;
    }
  }
}

// More threads than stripes: some count in the same one.
TEST(StripedCounters, LoseNothingWhenManyThreadsCount) {
  constexpr std::size_t kCounters = 11;
  constexpr std::size_t kThreads = 40;
  constexpr std::size_t kRounds = 2000;
  StripedCounters counters(kCounters);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < kRounds; ++i) {
        counters.increment(i % kCounters);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::size_t i = 0; i < kCounters; ++i) {
    const std::size_t each = kRounds / kCounters + (i < kRounds % kCounters ? 1 : 0);
    EXPECT_EQ(counters.total(i), kThreads * each) << "counter " << i;
  }
}

}  // namespace
}  // namespace graphtune

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "graphtune/engines/spinning_threads.h"

namespace graphtune {
namespace {

thread_local int ended = 0;

void end() noexcept { ++ended; }

// What was left too long ago is not ended: on a busy machine that may be any time.
bool ends_what_is_left() {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const int before = ended;
    leave_spinning(&end);
    end_spinning();
    if (ended == before + 1) {
      return true;
    }
  }
  return false;
}

TEST(SpinningThreads, AreEndedOnce) {
  EXPECT_TRUE(ends_what_is_left());
  const int before = ended;
  end_spinning();
  EXPECT_EQ(ended, before);
}

TEST(SpinningThreads, SleepAfterAWhile) {
  const int before = ended;
  leave_spinning(&end);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  end_spinning();
  EXPECT_EQ(ended, before);
}

TEST(SpinningThreads, BelongToTheThreadThatLeftThem) {
  leave_spinning(&end);
  std::thread([] {
    end_spinning();
    EXPECT_EQ(ended, 0);
    EXPECT_TRUE(ends_what_is_left());
  }).join();
  end_spinning();
}

}  // namespace
}  // namespace graphtune

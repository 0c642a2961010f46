#include "graphtune/engines/spinning_threads.h"

#include <chrono>

namespace graphtune {
namespace {

using Clock = std::chrono::steady_clock;

// libgomp spins for 300,000 rounds, 6 ms here and at most 17 where a round takes longest. To wake
// up threads that sleep by now would take time for nothing.
constexpr std::chrono::milliseconds kLongest{20};

struct Left {
  void (*end)() noexcept = nullptr;
  Clock::time_point when;
};

thread_local Left left;

}  // namespace

void leave_spinning(void (*end)() noexcept) noexcept { left = {end, Clock::now()}; }

void end_spinning() noexcept {
  if (left.end == nullptr) {
    return;
  }
  if (Clock::now() - left.when < kLongest) {
    left.end();
  }
  left.end = nullptr;
}

}  // namespace graphtune

#include "graphtune/striped_counters.h"

namespace graphtune {
namespace {

/// In the order in which threads first count.
std::size_t number_of_this_thread() noexcept {
  static std::atomic<std::size_t> next = 0;
  thread_local const std::size_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace

StripedCounters::StripedCounters(std::size_t count)
    : lines_per_stripe_((count + kPerLine - 1) / kPerLine), lines_(kStripes * lines_per_stripe_) {}

void StripedCounters::increment(std::size_t counter) noexcept {
  const std::size_t stripe = number_of_this_thread() % kStripes;
  Line& line = lines_[stripe * lines_per_stripe_ + counter / kPerLine];
  line.counters[counter % kPerLine].fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t StripedCounters::total(std::size_t counter) const noexcept {
  std::uint64_t sum = 0;
  for (std::size_t stripe = 0; stripe < kStripes; ++stripe) {
    const Line& line = lines_[stripe * lines_per_stripe_ + counter / kPerLine];
    sum += line.counters[counter % kPerLine].load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace graphtune

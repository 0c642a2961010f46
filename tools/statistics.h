#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace graphtune::tools {

/// Seconds that `function` takes.
template <typename Function>
double seconds_of(Function function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The value below which a share (0 to 1) of the values lies, between neighbours linearly.
inline double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
}

}  // namespace graphtune::tools

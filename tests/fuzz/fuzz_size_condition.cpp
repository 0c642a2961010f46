// Any text as a condition on sizes: parsed whole or refused with ValueError. What was parsed is
// written and read back the same, gives the same result then, and evaluates at any sizes.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "graphtune/error.h"
#include "graphtune/size_condition.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Four sizes, the text.
  std::array<std::int64_t, 4> sizes{};
  if (size < sizeof sizes) {
    return 0;
  }
  std::memcpy(sizes.data(), data, sizeof sizes);
  const std::string_view text(reinterpret_cast<const char*>(data) + sizeof sizes,
                              size - sizeof sizes);
  using graphtune::SizeCondition;
  try {
    const SizeCondition condition = SizeCondition::parse(text);
    // A second parse that fails ends the process: nothing catches it.
    const SizeCondition again = [&]() noexcept {
      return SizeCondition::parse(condition.to_string());
    }();
    std::vector<std::int64_t> values(
        condition.symbols().empty() ? 0 : condition.symbols().back() + std::size_t{1}, 1);
    for (std::size_t i = 0; i < values.size() && i < sizes.size(); ++i) {
      values[i] = sizes[i];
    }
    if (!(again == condition) || again.symbols() != condition.symbols() ||
        again.holds(values) != condition.holds(values)) {
      std::abort();
    }
  } catch (const graphtune::ValueError&) {
    // What any other text gives.
  }
  return 0;
}

#pragma once

#include <cstdint>

namespace graphtune::test {

/// False under sanitizers, which need operator new for themselves.
bool counts_allocations() noexcept;

/// Allocations by operator new in this thread so far.
std::uint64_t allocation_count() noexcept;

}  // namespace graphtune::test

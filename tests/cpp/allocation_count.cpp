#include "allocation_count.h"

#include <cstdlib>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define GRAPHTUNE_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GRAPHTUNE_SANITIZED
#endif

namespace graphtune::test {
namespace {

thread_local std::uint64_t count = 0;

}  // namespace

#ifdef GRAPHTUNE_SANITIZED
bool counts_allocations() noexcept { return false; }
#else
bool counts_allocations() noexcept { return true; }

void* counted_allocation(std::size_t size, std::size_t alignment) {
  ++count;
  const std::size_t bytes = size == 0 ? 1 : size;
  void* memory = alignment == 0 ? std::malloc(bytes)
                                : std::aligned_alloc(
                                      alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}
#endif

std::uint64_t allocation_count() noexcept { return count; }

}  // namespace graphtune::test

#ifndef GRAPHTUNE_SANITIZED
void* operator new(std::size_t size) { return graphtune::test::counted_allocation(size, 0); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return graphtune::test::counted_allocation(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
#endif

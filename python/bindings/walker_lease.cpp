#include "bindings/walker_lease.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace graphtune::python {
namespace {

// Walkers a thread keeps for later: as many as calls nest.
constexpr std::size_t kMaxPooled = 8;
// A walker that served a call of more tensors than this is not kept.
constexpr std::size_t kMaxPooledTensors = 1 << 16;

std::vector<std::unique_ptr<Walker>>& pool() {
  thread_local std::vector<std::unique_ptr<Walker>> walkers;
  return walkers;
}

}  // namespace

WalkerLease::WalkerLease() {
  auto& walkers = pool();
  if (walkers.empty()) {
    walker_ = std::make_unique<Walker>();
    return;
  }
  walker_ = std::move(walkers.back());
  walkers.pop_back();
}

WalkerLease::~WalkerLease() {
  const bool keep = walker_->tensors().size() <= kMaxPooledTensors;
  walker_->clear();
  walker_->keep_containers(false);
  auto& walkers = pool();
  if (keep && walkers.size() < kMaxPooled) {
    walkers.push_back(std::move(walker_));
  }
}

}  // namespace graphtune::python

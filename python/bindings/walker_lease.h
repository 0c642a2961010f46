#pragma once

#include <memory>

#include "bindings/walk.h"

namespace graphtune::python {

/// A walker from this thread's pool, returned (and cleared) at the end of the scope. Leases nest.
class WalkerLease {
 public:
  WalkerLease();
  ~WalkerLease();
  WalkerLease(const WalkerLease&) = delete;
  WalkerLease& operator=(const WalkerLease&) = delete;

  [[nodiscard]] Walker& operator*() const noexcept { return *walker_; }
  [[nodiscard]] Walker* operator->() const noexcept { return walker_.get(); }

 private:
  std::unique_ptr<Walker> walker_;
};

}  // namespace graphtune::python

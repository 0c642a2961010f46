#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace graphtune {

/// Lets at most `count` callers in at a time; the others wait. (std::counting_semaphore of GCC 11
/// and 12 can miss a wake-up.)
class ConcurrencyLimit {
 public:
  explicit ConcurrencyLimit(std::size_t count) : count_(count), free_(count) {}
  [[nodiscard]] std::size_t count() const noexcept { return count_; }

  class Slot {
   public:
    explicit Slot(ConcurrencyLimit& limit) : limit_(limit) {
      std::unique_lock lock(limit_.mutex_);
      limit_.freed_.wait(lock, [this] { return limit_.free_ > 0; });
      --limit_.free_;
    }
    ~Slot() {
      {
        const std::lock_guard lock(limit_.mutex_);
        ++limit_.free_;
      }
      limit_.freed_.notify_one();
    }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

   private:
    ConcurrencyLimit& limit_;
  };

 private:
  const std::size_t count_;
  std::size_t free_;
  std::mutex mutex_;
  std::condition_variable freed_;
};

}  // namespace graphtune

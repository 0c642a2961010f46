#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graphtune/call_form.h"
#include "graphtune/export.h"

namespace graphtune {

/// A form of calls that a router has served, and what it found out about them.
struct KnownForm {
  std::uint64_t hash = 0;
  std::string bytes;  ///< its words
  std::uint32_t graph = 0;
  /// Canonical tensor -> the caller's; empty when the orders are the same.
  std::vector<std::uint32_t> order;
};

/// Forms seen so far, by their words. Looking up takes no lock and may go on while another thread
/// adds. Forms stay until the end; after kMaxForms no more are added.
class GRAPHTUNE_API KnownForms {
 public:
  static constexpr std::size_t kMaxForms = 1024;

  KnownForms();
  ~KnownForms();
  KnownForms(const KnownForms&) = delete;
  KnownForms& operator=(const KnownForms&) = delete;

  /// Null for a form that was not added, and for an incomplete one.
  [[nodiscard]] const KnownForm* find(const CallForm& form) const noexcept;
  /// Does nothing for an incomplete form, a known one, and when there is no more room.
  void add(const CallForm& form, std::uint32_t graph, std::vector<std::uint32_t> order);

 private:
  using Slot = std::atomic<const KnownForm*>;
  /// Open addressing; at most half of the slots are taken.
  struct Table {
    explicit Table(std::size_t size) : slots(size), mask(size - 1) {}
    void insert(const KnownForm* form);
    std::vector<Slot> slots;
    std::size_t mask;
  };

  std::atomic<const Table*> table_;
  std::mutex adding_;
  std::vector<std::unique_ptr<const KnownForm>> forms_;
  // The last is in use; readers may still be in an older one.
  std::vector<std::unique_ptr<Table>> tables_;
};

}  // namespace graphtune

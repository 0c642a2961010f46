#include "graphtune/known_forms.h"

#include <utility>

#include "graphtune/hash.h"

namespace graphtune {
namespace {

constexpr std::size_t kFirstSize = 32;

}  // namespace

KnownForms::KnownForms() {
  tables_.push_back(std::make_unique<Table>(kFirstSize));
  table_.store(tables_.back().get(), std::memory_order_release);
}

KnownForms::~KnownForms() = default;

void KnownForms::Table::insert(const KnownForm* form) {
  std::size_t place = form->hash & mask;
  while (slots[place].load(std::memory_order_relaxed) != nullptr) {
    place = (place + 1) & mask;
  }
  slots[place].store(form, std::memory_order_release);
}

const KnownForm* KnownForms::find(const CallForm& form) const noexcept {
  if (!form.is_complete()) {
    return nullptr;
  }
  const std::uint64_t hash = hash_bytes(form.bytes());
  const Table& table = *table_.load(std::memory_order_acquire);
  for (std::size_t place = hash & table.mask;; place = (place + 1) & table.mask) {
    const KnownForm* known = table.slots[place].load(std::memory_order_acquire);
    if (known == nullptr || (known->hash == hash && known->bytes == form.bytes())) {
      return known;
    }
  }
}

void KnownForms::add(const CallForm& form, std::uint32_t graph, std::vector<std::uint32_t> order) {
  if (!form.is_complete()) {
    return;
  }
  const std::lock_guard lock(adding_);
  if (forms_.size() == kMaxForms || find(form) != nullptr) {
    return;
  }
  forms_.push_back(std::make_unique<const KnownForm>(
      KnownForm{hash_bytes(form.bytes()), std::string(form.bytes()), graph, std::move(order)}));
  if (2 * forms_.size() > tables_.back()->slots.size()) {
    auto larger = std::make_unique<Table>(2 * tables_.back()->slots.size());
    for (const auto& known : forms_) {
      larger->insert(known.get());
    }
    tables_.push_back(std::move(larger));
    table_.store(tables_.back().get(), std::memory_order_release);
  } else {
    tables_.back()->insert(forms_.back().get());
  }
}

}  // namespace graphtune

#include "graphtune/sample_shelf.h"

#include <algorithm>
#include <map>

namespace graphtune {

std::optional<std::uint32_t> SampleShelf::place_for(BatchSize batch_size) const {
  if (size() < limit_) {
    return size();
  }
  std::map<BatchSize, std::uint32_t> counts;
  for (const BatchSize& kept : batch_sizes_) {
    ++counts[kept];
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  // Replacing must leave the two at least level, or samples would push each other out in turns.
  if (most == counts.end() || most->first == batch_size || counts[batch_size] + 1 >= most->second) {
    return std::nullopt;
  }
  const auto latest = std::find(batch_sizes_.rbegin(), batch_sizes_.rend(), most->first);
  return static_cast<std::uint32_t>(batch_sizes_.rend() - latest - 1);
}

void SampleShelf::put(std::uint32_t place, BatchSize batch_size) {
  if (place == size()) {
    batch_sizes_.push_back(batch_size);
  } else {
    batch_sizes_.at(place) = batch_size;
  }
}

}  // namespace graphtune

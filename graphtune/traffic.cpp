#include "graphtune/traffic.h"

#include <algorithm>

#include "graphtune/hash.h"

namespace graphtune {

void Traffic::count(std::span<const std::int64_t> sizes) {
  const std::uint64_t digest =
      hash_bytes({reinterpret_cast<const char*>(sizes.data()), sizes.size_bytes()});
  const auto [first, last] = by_digest_.equal_range(digest);
  for (auto place = first; place != last; ++place) {
    Row& row = rows_[place->second];
    if (std::equal(row.sizes.begin(), row.sizes.end(), sizes.begin(), sizes.end())) {
      ++row.calls;
      return;
    }
  }
  const std::size_t next = rows_.size() + 1;
  if (next > kMaxRows || (next > 1 && next * sizes.size() > kMaxSizes)) {
    ++others_;
    return;
  }
  rows_.push_back({{sizes.begin(), sizes.end()}, 1});
  by_digest_.emplace(digest, rows_.size() - 1);
}

}  // namespace graphtune

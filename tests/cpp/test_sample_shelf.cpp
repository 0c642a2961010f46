#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphtune/sample_shelf.h"

namespace graphtune {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

std::map<std::int64_t, int> fill(std::uint32_t limit,
                                 const std::vector<std::int64_t>& batch_sizes) {
  SampleShelf shelf(limit);
  std::map<std::uint32_t, std::int64_t> kept;
  for (const std::int64_t batch_size : batch_sizes) {
    if (const auto place = shelf.place_for(batch_size)) {
      shelf.put(*place, batch_size);
      kept[*place] = batch_size;
    }
  }
  EXPECT_EQ(kept.size(), shelf.size());
  std::map<std::int64_t, int> counts;
  for (const auto& [place, batch_size] : kept) {
    ++counts[batch_size];
  }
  return counts;
}

TEST(SampleShelf, KeepsTheFirst) {
  EXPECT_THAT(fill(3, {1, 1, 1, 1, 1}), ElementsAre(Pair(1, 3)));
  EXPECT_THAT(fill(0, {1, 2}), ElementsAre());
}

TEST(SampleShelf, MakesRoomForBatchSizesThatComeLater) {
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size : {1, 2, 4, 8}) {
    sizes.insert(sizes.end(), 100, size);
  }
  EXPECT_THAT(fill(16, sizes), ElementsAre(Pair(1, 4), Pair(2, 4), Pair(4, 4), Pair(8, 4)));
  EXPECT_THAT(fill(2, {1, 1, 2, 3, 4, 1}), ElementsAre(Pair(1, 1), Pair(2, 1)));
}

TEST(SampleShelf, ReplacesTheLatestOfTheMostFrequent) {
  SampleShelf shelf(4);
  for (const std::int64_t size : {2, 1, 1, 1}) {
    shelf.put(*shelf.place_for(size), size);
  }
  EXPECT_EQ(shelf.place_for(1), std::nullopt);
  EXPECT_EQ(shelf.place_for(3), 3U);
  EXPECT_EQ(shelf.place_for(std::nullopt), 3U);
  EXPECT_EQ(shelf.place_for(2), 3U);
  shelf.put(3, 2);
  EXPECT_EQ(shelf.place_for(2), std::nullopt);
}

}  // namespace
}  // namespace graphtune

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calls.h"
#include "graphtune/error.h"
#include "graphtune/recorder.h"
#include "graphtune/traffic.h"

namespace graphtune {
namespace {

using ::testing::ElementsAre;

TEST(Traffic, CountsEachSize) {
  Traffic traffic;
  for (const std::int64_t size : {3, 5, 3, 3, 7, 5}) {
    traffic.count(std::vector<std::int64_t>{size, 8});
  }
  EXPECT_THAT(traffic.rows(), ElementsAre(Traffic::Row{{3, 8}, 3}, Traffic::Row{{5, 8}, 2},
                                          Traffic::Row{{7, 8}, 1}));
  EXPECT_EQ(traffic.others(), 0U);
}

TEST(Traffic, OfTensorsWithoutAxes) {
  Traffic traffic;
  traffic.count({});
  traffic.count({});
  EXPECT_THAT(traffic.rows(), ElementsAre(Traffic::Row{{}, 2}));
}

TEST(Traffic, StaysSmall) {
  Traffic many;
  for (std::int64_t size = 0; size < 5000; ++size) {
    many.count(std::vector<std::int64_t>{size});
  }
  many.count(std::vector<std::int64_t>{17});
  EXPECT_EQ(many.rows().size(), Traffic::kMaxRows);
  EXPECT_EQ(many.rows()[17].calls, 2U);
  EXPECT_EQ(many.others(), 5000 - Traffic::kMaxRows);

  Traffic wide;
  std::vector<std::int64_t> sizes(Traffic::kMaxSizes / 2 + 1, 1);
  wide.count(sizes);
  sizes[0] = 2;
  wide.count(sizes);
  EXPECT_EQ(wide.rows().size(), 1U);
  EXPECT_EQ(wide.others(), 1U);
}

}  // namespace
}  // namespace graphtune

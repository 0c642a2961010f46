#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calls.h"
#include "graphtune/error.h"
#include "graphtune/plan.h"

namespace graphtune {
namespace {

using test::message_of;
using ::testing::HasSubstr;

Region box(std::initializer_list<Region::Limit> limits) { return {limits}; }

TEST(Plan, RegionHoldsItsBordersOnly) {
  const Region region = box({{0, {1, 4}}, {2, {8, 8}}});
  EXPECT_TRUE(region.contains(std::vector<std::int64_t>{1, 99, 8}));
  EXPECT_TRUE(region.contains(std::vector<std::int64_t>{4, 0, 8}));
  EXPECT_FALSE(region.contains(std::vector<std::int64_t>{5, 99, 8}));
  EXPECT_FALSE(region.contains(std::vector<std::int64_t>{1, 99, 7}));
  EXPECT_TRUE(Region{}.contains(std::vector<std::int64_t>{}));
}

TEST(Plan, IsPrintedForPeople) {
  EXPECT_EQ(to_string(Region{}), "everywhere");
  EXPECT_EQ(to_string(box({{0, {1, 4}}, {1, {8, 8}}})), "b 1 to 4, s0 8");
  Plan plan;
  EXPECT_EQ(to_string(plan), "eager everywhere");
  plan.entries = {{"openvino", box({{0, {1, 4}}})}, {"aoti", {}}};
  EXPECT_EQ(to_string(plan), "openvino for b 1 to 4; aoti elsewhere");
  plan.entries = {{"aoti", {}}};
  EXPECT_EQ(to_string(plan), "aoti everywhere");
}

TEST(Plan, RegionsMayLimitOnlySymbolsThatCanBeRead) {
  const std::vector<std::uint32_t> used = {0, 2};
  const auto check = [&](Region region) {
    return message_of<ValueError>([&] {
      check_regions(Plan{{{"aoti", std::move(region)}}}, used);
    });
  };
  EXPECT_EQ(check(box({{0, {1, 4}}, {2, {1, 1}}})), "(nothing was thrown)");
  EXPECT_THAT(check(box({{1, {1, 4}}})), HasSubstr("'aoti' limits s0, which no axis"));
  EXPECT_THAT(check(box({{7, {1, 4}}})), HasSubstr("s6"));
  EXPECT_THAT(check(box({{2, {4, 1}}})), HasSubstr("empty range (4 to 1)"));
  EXPECT_THAT(check(box({{2, {1, 4}}, {2, {1, 4}}})), HasSubstr("limits already"));
}

TEST(Plan, CoverageIsThatOfTheUnion) {
  const std::vector<SymbolRange> ranges = {{1, 8}, {3, 64}};
  const std::vector<Region> halves = {box({{0, {1, 4}}}), box({{0, {5, 8}}})};
  EXPECT_TRUE(is_covered({}, halves, ranges));
  EXPECT_FALSE(is_covered({}, std::span(halves).first(1), ranges));
  EXPECT_TRUE(is_covered(box({{0, {2, 3}}}), std::span(halves).first(1), ranges));
  EXPECT_FALSE(is_covered({}, {}, ranges));
  // What lies outside the contract needs no engine.
  EXPECT_TRUE(is_covered(box({{0, {5, 100}}}), halves, ranges));
  EXPECT_TRUE(is_covered(box({{0, {9, 100}}}), {}, ranges));
}

TEST(Plan, CoverageAgreesWithTryingEveryPoint) {
  std::mt19937 random(7);
  const auto range = [&](std::int64_t low, std::int64_t high) {
    const std::int64_t a = std::uniform_int_distribution<std::int64_t>(low, high)(random);
    const std::int64_t b = std::uniform_int_distribution<std::int64_t>(low, high)(random);
    return SymbolRange{std::min(a, b), std::max(a, b)};
  };
  const std::vector<SymbolRange> ranges = {{1, 5}, {1, 5}, {1, 3}};
  int covered = 0;
  for (int round = 0; round < 2000; ++round) {
    const auto random_box = [&] {
      Region region;
      for (std::uint32_t symbol = 0; symbol < 3; ++symbol) {
        if (random() % 2 == 0) {
          region.limits.push_back({symbol, range(0, 6)});
        }
      }
      return region;
    };
    const Region region = random_box();
    std::vector<Region> others(random() % 5);
    std::generate(others.begin(), others.end(), random_box);
    bool expected = true;
    for (std::int64_t x = 1; x <= 5; ++x) {
      for (std::int64_t y = 1; y <= 5; ++y) {
        for (std::int64_t z = 1; z <= 3; ++z) {
          const std::vector<std::int64_t> point = {x, y, z};
          expected &= !region.contains(point) ||
                      std::any_of(others.begin(), others.end(),
                                  [&](const Region& other) { return other.contains(point); });
        }
      }
    }
    ASSERT_EQ(is_covered(region, others, ranges), expected) << round;
    covered += expected ? 1 : 0;
  }
  EXPECT_GT(covered, 200);
  EXPECT_LT(covered, 1800);
}

TEST(Plan, AbsurdPlanEndsSoon) {
  std::vector<Region> splinters;
  for (std::int64_t i = 0; i < 3000; ++i) {
    splinters.push_back(box({{static_cast<std::uint32_t>(i % 40), {i * 3, i * 3}}}));
  }
  const std::vector<SymbolRange> ranges(40, {1, 1'000'000});
  EXPECT_FALSE(is_covered({}, splinters, ranges));
}

}  // namespace
}  // namespace graphtune

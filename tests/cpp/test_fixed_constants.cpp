#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "calls.h"
#include "graphtune/error.h"
#include "graphtune/fixed_constants.h"
#include "graphtune/graph_json.h"
#include "graphtune/json.h"

namespace graphtune {
namespace {

using test::Call;
using test::Named;
using test::Result;
using test::zeros;
using ::testing::HasSubstr;

Call call_of(Named named) { return Call({zeros({1})}, std::move(named)); }

TEST(FixedConstants, AreComparedByTypeAndValueInWhateverOrderTheyCome) {
  const FixedConstants fixed(call_of({{"b", true}, {"a", 1.0}, {"c", nullptr}}).tree);
  ASSERT_EQ(fixed.items().size(), 3U);
  EXPECT_FALSE(fixed.check(call_of({{"c", nullptr}, {"a", 1.0}, {"b", true}}).tree));
  for (const Named& other : {Named{{"a", 1.0}, {"b", false}, {"c", nullptr}},
                             Named{{"a", std::int64_t{1}}, {"b", true}, {"c", nullptr}},
                             Named{{"a", 1.0}, {"b", true}, {"c", false}}}) {
    const auto miss = fixed.check(call_of(other).tree);
    ASSERT_TRUE(miss);
    EXPECT_EQ(miss->reason, MissReason::Constant);
  }
}

TEST(FixedConstants, OfOneThatIsNotUsedOnlyTheKindCounts) {
  const std::vector<std::uint32_t> first{0};
  const FixedConstants fixed(call_of({{"a", std::int64_t{1}}}).tree, first);
  EXPECT_FALSE(fixed.check(call_of({{"a", std::int64_t{7}}}).tree));
  EXPECT_TRUE(fixed.check(call_of({{"a", 7.0}}).tree));
  EXPECT_TRUE(fixed.check(call_of({{"a", nullptr}}).tree));
  const std::vector<std::uint32_t> beyond{1};
  EXPECT_THROW(FixedConstants(call_of({{"a", std::int64_t{1}}}).tree, beyond), ValueError);
}

TEST(FixedConstants, AreStoredWithTheirGraph) {
  const Call call = call_of({{"a", 0.5}, {"b", std::string("x")}});
  GraphSpec spec("g", SampleMetadata(call.tree, false),
                 SampleMetadata(Result(zeros({1})).tree, true));
  EXPECT_EQ(spec.fixed_constants(), FixedConstants(call.tree));
  const std::vector<std::uint32_t> second{1};
  const FixedConstants fixed(call_of({{"a", 0.25}, {"b", std::string("y")}}).tree, second);
  spec.set_fixed_constants(fixed);
  const Json json = to_json(spec);
  EXPECT_EQ(graph_spec_from_json(JsonView(json)).fixed_constants(), fixed);
  EXPECT_THROW(spec.set_fixed_constants(FixedConstants(call_of({}).tree)), ValueError);
  Json damaged = json;
  damaged["fixed_constants"].erase(0);
  EXPECT_THROW((void)graph_spec_from_json(JsonView(damaged)), ValueError);
}

}  // namespace
}  // namespace graphtune

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocation_count.h"
#include "calls.h"
#include "graphtune/error.h"
#include "graphtune/size_condition.h"

namespace graphtune {
namespace {

using test::message_of;
using ::testing::HasSubstr;

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

std::string canonical(const std::string& text) { return SizeCondition::parse(text).to_string(); }

/// For b, s0, s1.
bool holds(const std::string& text, std::vector<std::int64_t> values) {
  return SizeCondition::parse(text).holds(values);
}

std::string error(const std::string& text) {
  return message_of<ValueError>([&] { (void)SizeCondition::parse(text); });
}

std::string repeated(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) {
    result += text;
  }
  return result;
}

TEST(SizeCondition, OneTextForAllWaysOfWritingIt) {
  EXPECT_EQ(canonical("b*s0<=20"), "b*s0 <= 20");
  EXPECT_EQ(canonical(" ( ((b)*( s0 )) ) <=  (20) "), "b*s0 <= 20");
  EXPECT_EQ(canonical("b * s0 % 4 == 0"), "(b*s0) % 4 == 0");
  EXPECT_EQ(canonical("b % 4 * s0 == 0"), "(b % 4)*s0 == 0");
  EXPECT_EQ(canonical("b*(s0 // 2) + 1 != -3"), "b*(s0 // 2)+1 != -3");
  EXPECT_EQ(canonical("b-(s0-1)-2 > - 7"), "b-(s0-1)-2 > -7");
  EXPECT_EQ(canonical("-(b+s0) < min(b,max(s0 , 3),2)"), "-(b+s0) < min(b, max(s0, 3), 2)");
  EXPECT_EQ(canonical("(b<3 and s0<4) or s1==1"), "b < 3 and s0 < 4 or s1 == 1");
  EXPECT_EQ(canonical("b<3 and (s0<4 or s1==1)"), "b < 3 and (s0 < 4 or s1 == 1)");
  EXPECT_EQ(canonical("not (b<3 or not(s0<4))"), "not (b < 3 or not s0 < 4)");
  EXPECT_EQ(canonical("3<=b<s0!=s1"), "3 <= b < s0 != s1");
}

TEST(SizeCondition, WhatIsWrittenParsesToTheSame) {
  for (const std::string text :
       {"b*s0 <= 20", "not not b == 1", "b--3 < 2", "b*-3 < 2", "--b < 1", "-(3) < b",
        "b % s0 % s1 == 0", "b // s0 // s1 == 0", "b-s0-s1 == 0", "b < 1 or (b < 2 or b < 3)",
        "0 == 0", "-9223372036854775808 < b", "b < 9223372036854775807", "s65534 == 1",
        "1 < b < 2 and not 3 < s0 < 4"}) {
    const SizeCondition once = SizeCondition::parse(text);
    const SizeCondition again = SizeCondition::parse(once.to_string());
    EXPECT_EQ(again.to_string(), once.to_string());
    EXPECT_TRUE(again == once);
  }
  EXPECT_FALSE(SizeCondition::parse("b == 1") == SizeCondition::parse("b == 2"));
}

TEST(SizeCondition, SymbolsThatOccur) {
  EXPECT_EQ(SizeCondition::parse("s3+b < s0 or s3 == 1").symbols(),
            (std::vector<std::uint32_t>{0, 1, 4}));
  EXPECT_TRUE(SizeCondition::parse("1 < 2").symbols().empty());
  EXPECT_TRUE(SizeCondition::parse("1 < 2").holds({}));
}

TEST(SizeCondition, Evaluates) {
  EXPECT_TRUE(holds("b*s0 <= 20", {4, 5}));
  EXPECT_FALSE(holds("b*s0 <= 20", {4, 6}));
  EXPECT_TRUE(holds("(b*s0) % 4 == 0", {2, 6}));
  EXPECT_FALSE(holds("(b*s0) % 4 == 0", {3, 6}));
  EXPECT_TRUE(holds("2+3*b == 14", {4}));
  EXPECT_TRUE(holds("20-b-s0 == 9", {4, 7}));
  EXPECT_TRUE(holds("100 // b // s0 == 3", {4, 7}));
  EXPECT_TRUE(holds("2*b % 3 == 2", {4}));
  EXPECT_TRUE(holds("min(s0, b, 9) == 4 and max(s0, b, 9) == 9", {4, 7}));
  EXPECT_TRUE(holds("b == 1 or s0 == 7", {4, 7}));
  EXPECT_FALSE(holds("b == 1 or s0 == 6", {4, 7}));
  EXPECT_TRUE(holds("b == 1 and s0 == 6 or s1 == 2", {4, 7, 2}));
  EXPECT_FALSE(holds("b == 1 and (s0 == 6 or s1 == 2)", {4, 7, 2}));
  EXPECT_TRUE(holds("not b == 1", {4}));
  EXPECT_TRUE(holds("3 < b < s0 < s1", {4, 7, 8}));
  EXPECT_FALSE(holds("3 < b < s0 < s1", {4, 7, 7}));
  EXPECT_FALSE(holds("3 < b < s0 < s1", {4, 4, 8}));
  EXPECT_FALSE(holds("not 3 < b < s0 < s1", {4, 7, 8}));
  EXPECT_TRUE(holds("b != s0 and b <= 4 and b >= 4 and b > 3 and b < 5 and b == 4", {4, 7}));
}

TEST(SizeCondition, DividesAsPythonDoes) {
  EXPECT_TRUE(holds("-7 // b == -4 and -7 % b == 1", {2}));
  EXPECT_TRUE(holds("7 // -b == -4 and 7 % -b == -1", {2}));
  EXPECT_TRUE(holds("-7 // -b == 3 and -7 % -b == -1", {2}));
  EXPECT_TRUE(holds("-6 // b == -3 and -6 % b == 0", {2}));
  EXPECT_TRUE(holds("7 // -1 == -7 and b % -1 == 0", {2}));
}

TEST(SizeCondition, WhereThereIsNoResultItDoesNotHold) {
  for (const std::string text : {"7 // b == 0", "7 % b == 0", "7 // b != 0", "not 7 // b == 0",
                                 "7 % b == 0 or s0 == 7", "s0 == 7 and 7 % b == 0"}) {
    EXPECT_FALSE(holds(text, {0, 7})) << text;
  }
  // What Python doesn't evaluate either
  EXPECT_TRUE(holds("s0 == 7 or 7 % b == 0", {0, 7}));
  EXPECT_TRUE(holds("not (s0 == 6 and 7 % b == 0)", {0, 7}));
  EXPECT_FALSE(holds("3 < b < 7 // b", {0}));

  for (const std::string text : {"b*s0 > 0", "b*s0 <= 0", "b*s0 != 0", "not b*s0 == 0", "b+1 > 0",
                                 "b+1 < 0", "-1-b-1 < 0", "-(-b-1) > 0", "(-b-1) // -1 > 0"}) {
    EXPECT_FALSE(holds(text, {kMax, 2})) << text;
  }
  EXPECT_TRUE(holds("(-b-1) % -1 == 0 and -b-1 == -9223372036854775808", {kMax}));
  EXPECT_TRUE(SizeCondition::parse("b < 0").holds(std::vector<std::int64_t>{kMin}));
}

TEST(SizeCondition, OtherTextsAreRefused) {
  for (const std::string text : {"",
                                 " ",
                                 "b",
                                 "b+1",
                                 "min(b, 2)",
                                 "b <",
                                 "< b",
                                 "b = 1",
                                 "b << 2 < 1",
                                 "b ** 2 < 1",
                                 "b / 2 < 1",
                                 "b & 1 == 0",
                                 "+b < 1",
                                 "b < 1;",
                                 "b < 1 b",
                                 "(b < 1",
                                 "b < 1)",
                                 "()",
                                 "b and s0",
                                 "not b",
                                 "(b < 1) < 2",
                                 "(b < 1) + 1 < 2",
                                 "-(b < 1) < 2",
                                 "b < (b < 1)",
                                 "min(b) < 1",
                                 "min() < 1",
                                 "min(b < 1, 2) < 1",
                                 "max < 1",
                                 "abs(b) < 1",
                                 "min(b, 2",
                                 "n < 1",
                                 "s < 1",
                                 "s00 < 1",
                                 "s01 < 1",
                                 "bb < 1",
                                 "s0x < 1",
                                 "s65535 < 1",
                                 "s99999999999 < 1",
                                 "01 < b",
                                 "0x10 < b",
                                 "1_0 < b",
                                 "1.5 < b",
                                 "9223372036854775808 < b",
                                 "-9223372036854775809 < b",
                                 "'b' < 1",
                                 "b < True",
                                 "b is 1",
                                 "b\n< 1",
                                 "__import__('os') < 1",
                                 "b.real < 1",
                                 "b[0] < 1",
                                 "1 if b < 2 else 3"}) {
    EXPECT_THROW((void)SizeCondition::parse(text), ValueError) << text;
  }
  EXPECT_EQ(
      error("b*n <= 20"),
      "'b*n <= 20' is no condition on sizes such as \"b*s0 <= 20\": at character 2: a number, "
      "b, s0, s1 …, min, max or a bracket was expected");
  EXPECT_THAT(error("b % 4"), HasSubstr("b % 4 is a number where a comparison is needed"));
  EXPECT_THAT(error("(b < 3)*2 < 1"), HasSubstr("b < 3 is a condition where a number is needed"));
}

TEST(SizeCondition, DepthAndLengthAreLimited) {
  const auto nested = [](int depth) {
    return repeated("(", depth) + "b" + repeated(")", depth) + " == 1";
  };
  EXPECT_EQ(canonical(nested(SizeCondition::kMaxDepth)), "b == 1");
  EXPECT_THAT(error(nested(SizeCondition::kMaxDepth + 1)), HasSubstr("deeper than 32"));
  EXPECT_THAT(error(nested(1000)), HasSubstr("deeper than 32"));
  EXPECT_THAT(error(repeated("not ", 1000) + "b == 1"), HasSubstr("deeper than 32"));
  EXPECT_THAT(error(repeated("-", 1000) + "b == 1"), HasSubstr("deeper than 32"));
  EXPECT_THAT(error(repeated("min(1, ", 500) + "b" + repeated(")", 500) + " == 1"),
              HasSubstr("deeper than 32"));
  // Brackets that are only written count too: what is written has to be read again.
  EXPECT_THAT(error("b" + repeated(" % 7", 40) + " == 1"), HasSubstr("deeper than 32"));
  EXPECT_THAT(error(repeated("b+", 2500) + "b == 1"), HasSubstr("longer than 4096 bytes"));
  EXPECT_THAT(error(repeated("b<1or ", 680) + "b==1"), HasSubstr("written out it is longer"));

  const std::string longest = repeated("b+", 2000) + "b == 2001";
  EXPECT_TRUE(holds(longest, {1}));
  const std::string deepest = repeated("1+2*min(0, -(", 10) + "b" + repeated("))", 10) + " == 1";
  EXPECT_EQ(canonical(canonical(deepest)), canonical(deepest));
}

TEST(SizeCondition, EvaluatingAllocatesNothing) {
  if (!test::counts_allocations()) {
    GTEST_SKIP() << "allocations can't be counted in this build";
  }
  const SizeCondition condition = SizeCondition::parse("b*s0 <= 20 and (b*s0) % 4 == 0 or b == 1");
  const std::vector<std::int64_t> values{4, 5};
  const std::uint64_t before = test::allocation_count();
  EXPECT_TRUE(condition.holds(values));
  EXPECT_EQ(test::allocation_count(), before);
}

}  // namespace
}  // namespace graphtune

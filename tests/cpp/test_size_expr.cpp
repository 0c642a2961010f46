#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "graphtune/error.h"
#include "graphtune/size_expr.h"

namespace graphtune {
namespace {

TEST(SizeExpr, TextAndBack) {
  for (const char* text : {"0", "8", "-3", "b", "2*b", "s0", "s0+s1", "b+2*s3+7", "s0-1", "-s0+5",
                           "-2*b-s1-4", "9223372036854775807*b", "s4294967294"}) {
    EXPECT_EQ(SizeExpr::parse(text).to_string(), text);
  }
  EXPECT_EQ(SizeExpr::parse("7+s1+s0").to_string(), "s0+s1+7");
}

TEST(SizeExpr, OtherTextsAreRefused) {
  for (const char* text : {"",
                           "+",
                           "b+",
                           "+b",
                           "s",
                           "sx",
                           "b b",
                           "2b",
                           "2*",
                           "2*3",
                           "0*b",
                           "b+b",
                           "1+2",
                           "b*2",
                           "99999999999999999999",
                           "s4294967295",
                           "s99999999999",
                           "B",
                           "b-",
                           "--b"}) {
    EXPECT_THROW((void)SizeExpr::parse(text), ValueError) << text;
  }
}

TEST(SizeExpr, Evaluates) {
  const std::vector<std::int64_t> values{4, 10, 3};
  EXPECT_EQ(SizeExpr::parse("8").evaluate(values), 8);
  EXPECT_EQ(SizeExpr::parse("2*b+s0+s1+1").evaluate(values), 22);
  EXPECT_EQ(SizeExpr::parse("9223372036854775807*b").evaluate(values),
            -4);  // wraps, without undefined behaviour
}

TEST(SizeExpr, AddsAndMultiplies) {
  const SizeExpr sum = SizeExpr::symbol(1) + SizeExpr::symbol(0, 2) + SizeExpr::constant(3);
  EXPECT_EQ(sum.to_string(), "2*b+s0+3");
  EXPECT_EQ((sum + SizeExpr::symbol(1, -1)).to_string(), "2*b+3");
  EXPECT_EQ((2 * sum).to_string(), "4*b+2*s0+6");
  EXPECT_EQ((0 * sum).to_string(), "0");
  EXPECT_TRUE(SizeExpr::symbol(3).is_symbol());
  EXPECT_FALSE(sum.is_symbol());
  EXPECT_TRUE(SizeExpr::constant(3).is_constant());
}

}  // namespace
}  // namespace graphtune

#include <gtest/gtest.h>

#include "graphtune/locator.h"
#include "graphtune/utf8.h"

namespace graphtune {
namespace {

TEST(Locator, ShowsPathsAsTheDocumentDoes) {
  EXPECT_EQ(Locator(Root::Args, {Step::at(2), Step::at(0)}).to_string(), "[2][0]");
  EXPECT_EQ(Locator(Root::Args, {Step::at(3), Step::of_key(Constant::string("t"))}).to_string(),
            "[3]['t']");
  EXPECT_EQ(Locator(Root::Args, {Step::at(4), Step::attribute("data")}).to_string(), "[4].data");
  EXPECT_EQ(Locator(Root::Kwargs, {Step::of_key(Constant::string("t3")), Step::attribute("data")})
                .to_string(),
            "['t3'].data");
  EXPECT_EQ(Locator(Root::Outputs, {}).to_string(), "");
}

TEST(Locator, NamesAreTheDocuments) {
  EXPECT_EQ(Locator(Root::Args, {Step::at(0)}).name(), "args_0");
  EXPECT_EQ(Locator(Root::Args, {Step::at(2), Step::at(0)}).name(), "args_2_0");
  EXPECT_EQ(Locator(Root::Args, {Step::at(3), Step::of_key(Constant::string("t"))}).name(),
            "args_3_t");
  EXPECT_EQ(Locator(Root::Args, {Step::at(4), Step::attribute("data")}).name(), "args_4.data");
  EXPECT_EQ(
      Locator(Root::Kwargs, {Step::of_key(Constant::string("t3")), Step::attribute("data")}).name(),
      "kwargs_t3.data");
  EXPECT_EQ(Locator(Root::Outputs, {}).name(), "outputs");
  EXPECT_EQ(Locator(Root::Outputs, {Step::of_key(Constant::string("last_hidden_state"))}).name(),
            "outputs_last_hidden_state");
}

TEST(Locator, KeysOfDifferentTypesLookDifferent) {
  const auto shown = [](Constant key) {
    return Locator(Root::Args, {Step::of_key(std::move(key))}).to_string();
  };
  EXPECT_EQ(shown(Constant::integer(0)), "[0]");
  EXPECT_EQ(shown(Constant::string("0")), "['0']");
  EXPECT_EQ(shown(Constant::bytes("0")), "[b'0']");
  EXPECT_EQ(shown(Constant::none()), "[None]");
  EXPECT_EQ(shown(Constant::real(0.5)), "[0.5]");
  EXPECT_EQ(shown(Constant::string("it's")), "[\"it's\"]");
  EXPECT_EQ(shown(Constant::string("a'\"\n")), "['a\\'\"\\n']");
  EXPECT_EQ(shown(Constant::other("m.Color", "1", "<Color.RED: 1>")), "[<Color.RED: 1>]");
}

TEST(Locator, NamesKeepCharactersAndShowOtherKeys) {
  const auto name = [](Constant key) {
    return Locator(Root::Kwargs, {Step::of_key(std::move(key))}).name();
  };
  EXPECT_EQ(name(Constant::string("a b\"é")), "kwargs_a b\"é");
  EXPECT_EQ(name(Constant::string(std::string(200, 'k'))), "kwargs_" + std::string(200, 'k'));
  EXPECT_EQ(name(Constant::integer(-1)), "kwargs_-1");
  EXPECT_EQ(name(Constant::bytes("x")), "kwargs_b'x'");
  EXPECT_LT(name(Constant::string(std::string(100'000, 'k'))).size(), 200U);
}

TEST(Locator, WhatIsShownHasABound) {
  const auto shown = [](const std::string& key) {
    return Locator(Root::Kwargs, {Step::of_key(Constant::string(key)), Step::at(7)}).shown();
  };
  EXPECT_EQ(shown("x"), "['x'][7]");
  EXPECT_EQ(shown(std::string(190, 'k')), "['" + std::string(190, 'k') + "'][7]");
  for (const std::string& key : {std::string(10'000, 'k'), std::string(250, 'k')}) {
    EXPECT_LT(shown(key).size(), 210U);
    EXPECT_TRUE(shown(key).starts_with("['kkk"));
    EXPECT_TRUE(shown(key).ends_with("[7]"));
  }
  std::string wide;
  for (int i = 0; i < 80; ++i) {
    wide += "é€";
  }
  EXPECT_TRUE(is_utf8(shown(wide)));
}

TEST(Locator, EqualityComparesRootAndSteps) {
  const Locator locator(Root::Args, {Step::at(0)});
  EXPECT_EQ(locator, Locator(Root::Args, {Step::at(0)}));
  EXPECT_NE(locator, Locator(Root::Outputs, {Step::at(0)}));
  EXPECT_NE(locator, Locator(Root::Args, {Step::of_key(Constant::integer(0))}));
  EXPECT_NE(Step::of_key(Constant::string("a")), Step::attribute("a"));
}

}  // namespace
}  // namespace graphtune

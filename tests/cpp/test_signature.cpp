#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calls.h"
#include "graphtune/call_key.h"
#include "graphtune/error.h"
#include "graphtune/signature.h"

namespace graphtune {
namespace {

using test::Call;
using test::message_of;
using test::Named;
using test::zeros;
using ::testing::HasSubstr;
using Kind = Parameter::Kind;
using Place = Signature::Slot::Place;

Parameter required(std::string name, Kind kind = Kind::PositionalOrKeyword) {
  return {std::move(name), kind, false, {}};
}

Parameter optional(std::string name, Constant value, Kind kind = Kind::PositionalOrKeyword) {
  return {std::move(name), kind, true, std::move(value)};
}

/// f(x, y, mask=None, *, scale=1.0)
Signature usual() {
  return Signature({required("x"), required("y"), optional("mask", Constant::none()),
                    optional("scale", Constant::real(1.0), Kind::KeywordOnly)});
}

CallKey key_of(const Signature& signature, std::vector<Value> positional, Named named = {}) {
  const Arguments normal = signature.normalise({std::move(positional), std::move(named)});
  CallTree tree;
  flatten(normal, tree);
  return CallKey(tree, true);
}

TEST(Signature, OneCallHoweverItIsWritten) {
  const Signature f = usual();
  const Value x = zeros({1, 2});
  const Value y = zeros({3});
  const CallKey key = key_of(f, {x, y});
  EXPECT_EQ(key, key_of(f, {x}, {{"y", y}}));
  EXPECT_EQ(key, key_of(f, {}, {{"y", y}, {"x", x}}));
  EXPECT_EQ(key, key_of(f, {x, y, nullptr}));
  EXPECT_EQ(key, key_of(f, {x, y}, {{"mask", nullptr}, {"scale", 1.0}}));
  EXPECT_FALSE(key == key_of(f, {y, x}));
}

TEST(Signature, ADefaultIsDroppedOnlyWhenTypeAndValueAgree) {
  const Signature f = usual();
  const Value x = zeros({1});
  const CallKey key = key_of(f, {x, x});
  EXPECT_FALSE(key == key_of(f, {x, x}, {{"scale", 1}}));
  EXPECT_FALSE(key == key_of(f, {x, x}, {{"scale", true}}));
  EXPECT_FALSE(key == key_of(f, {x, x}, {{"scale", 2.0}}));
  EXPECT_FALSE(key == key_of(f, {x, x}, {{"mask", false}}));

  const Signature nan({optional("v", Constant::real(std::numeric_limits<double>::quiet_NaN()))});
  EXPECT_EQ(key_of(nan, {}), key_of(nan, {std::numeric_limits<double>::quiet_NaN()}));
  const Signature zero({optional("v", Constant::real(0.0))});
  EXPECT_FALSE(key_of(zero, {}) == key_of(zero, {-0.0}));
}

TEST(Signature, NormalFormNamesArgumentsInTheirOrder) {
  const Arguments normal = usual().normalise({{zeros({1}), zeros({2})}, {{"scale", 2.0}}});
  EXPECT_TRUE(normal.positional.empty());
  ASSERT_EQ(normal.named.size(), 3U);
  EXPECT_EQ(normal.named[0].first, "x");
  EXPECT_EQ(normal.named[1].first, "y");
  EXPECT_EQ(normal.named[2].first, "scale");
}

TEST(Signature, PositionalOnlyStaysPositional) {
  // f(a, b=None, /, c=None)
  const Signature f({required("a", Kind::PositionalOnly),
                     optional("b", Constant::none(), Kind::PositionalOnly),
                     optional("c", Constant::none())});
  const Arguments normal = f.normalise({{1, nullptr, 3}, {}});
  EXPECT_EQ(normal.positional.size(), 2U);
  ASSERT_EQ(normal.named.size(), 1U);
  EXPECT_EQ(normal.named[0].first, "c");
  EXPECT_EQ(f.default_of("b"), nullptr);
  ASSERT_NE(f.default_of("c"), nullptr);
  EXPECT_EQ(f.place_positional(1, 3).place, Place::Positional);
  EXPECT_EQ(f.place_positional(2, 3).place, Place::Keyword);
  EXPECT_EQ(*f.place_positional(2, 3).name, "c");
}

TEST(Signature, AllBeforeNonEmptyArgsStaysPositional) {
  // f(x, y=None, *rest, z=0)
  const Signature f({required("x"), optional("y", Constant::none()),
                     required("rest", Kind::VarPositional),
                     optional("z", Constant::integer(0), Kind::KeywordOnly)});
  const Arguments with_rest = f.normalise({{1, nullptr, 3, 4}, {{"z", 0}}});
  EXPECT_EQ(with_rest.positional.size(), 4U);
  EXPECT_TRUE(with_rest.named.empty());
  const Arguments without = f.normalise({{1, nullptr}, {}});
  EXPECT_TRUE(without.positional.empty());
  EXPECT_EQ(without.named.size(), 1U);
}

TEST(Signature, DefaultConstructedChangesNothing) {
  const Signature any;
  const Arguments given{{1, nullptr}, {{"b", 2}, {"a", nullptr}}};
  EXPECT_TRUE(any.is_normal(given));
  const Arguments normal = any.normalise(given);
  EXPECT_EQ(normal.positional.size(), 2U);
  EXPECT_EQ(normal.named.size(), 2U);
  EXPECT_EQ(normal.named[0].first, "b");
  EXPECT_EQ(any.parameters().size(), 2U);
}

TEST(Signature, VarKeywordTakesAnyName) {
  // f(a, /, **more): `a` may be a keyword too, another one
  const Signature f({required("a", Kind::PositionalOnly), required("more", Kind::VarKeyword)});
  const Arguments normal = f.normalise({{1}, {{"a", 2}, {"zz", 3}}});
  EXPECT_EQ(normal.positional.size(), 1U);
  EXPECT_EQ(normal.named.size(), 2U);
}

TEST(Signature, ErrorsAreWordedAsPythons) {
  const Signature f = usual();
  const auto error = [&](std::vector<Value> positional, Named named = {}) {
    return message_of<TypeError>([&] {
      (void)f.normalise({std::move(positional), std::move(named)});
    });
  };
  EXPECT_EQ(error({}), "missing a required argument: 'x'");
  EXPECT_EQ(error({}, {{"x", 1}}), "missing a required argument: 'y'");
  EXPECT_THAT(error({1, 2, 3, 4}), HasSubstr("too many positional arguments: 4 given, at most 3"));
  EXPECT_EQ(error({1, 2}, {{"x", 1}}), "multiple values for argument 'x'");
  EXPECT_EQ(error({1}, {{"y", 1}, {"y", 2}}), "multiple values for argument 'y'");
  EXPECT_THAT(error({1, 2}, {{"speed", 1}}),
              HasSubstr("got an unexpected keyword argument 'speed'; known are x, y, mask, scale"));
  const Signature only({required("a", Kind::PositionalOnly)});
  EXPECT_THAT(message_of<TypeError>([&] {
                (void)only.normalise({{}, {{"a", 1}}});
              }),
              HasSubstr("'a' parameter is positional only"));
  const Signature nothing{std::vector<Parameter>{}};
  EXPECT_THAT(message_of<TypeError>([&] {
                (void)nothing.normalise({{1}, {}});
              }),
              HasSubstr("at most 0 taken"));
}

TEST(Signature, DoubledNameIsFoundAmongMany) {
  const Signature any;
  Named many;
  for (int i = 0; i < 1000; ++i) {
    many.emplace_back("k" + std::to_string(i), i);
  }
  EXPECT_TRUE(any.is_normal({{}, many}));
  many.emplace_back("k500", 1);
  EXPECT_EQ(message_of<TypeError>([&] {
              (void)any.is_normal({{}, many});
            }),
            "multiple values for argument 'k500'");
}

TEST(Signature, WhatPythonWouldNotCompileIsRefused) {
  EXPECT_THROW(Signature({required("a"), required("a")}), ValueError);
  EXPECT_THROW(Signature({optional("a", Constant::none()), required("b")}), ValueError);
  EXPECT_THROW(Signature({required("k", Kind::VarKeyword), required("a")}), ValueError);
  EXPECT_THROW(Signature({required("a", Kind::VarPositional), required("b", Kind::VarPositional)}),
               ValueError);
  EXPECT_THROW(Signature({required("a"), required("b", Kind::PositionalOnly)}), ValueError);
  EXPECT_THROW(Signature({{"a", Kind::PositionalOrKeyword, false, Constant::none()}}), ValueError);
  EXPECT_NO_THROW(Signature(
      {optional("a", Constant::none(), Kind::KeywordOnly), required("b", Kind::KeywordOnly)}));
}

}  // namespace
}  // namespace graphtune

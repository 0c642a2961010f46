#include <map>
#include <thread>

#include <gtest/gtest.h>

#include "calls.h"
#include "graphtune/call_form.h"
#include "graphtune/call_key.h"
#include "graphtune/error.h"
#include "graphtune/known_forms.h"
#include "random_value.h"

namespace graphtune {
namespace {

using test::Call;
using test::ids;
using test::Named;
using test::zeros;

std::string form_of(const Arguments& arguments) {
  CallForm form;
  take_form(arguments, form);
  return form.is_complete() ? std::string(form.bytes()) : "";
}

std::string form_of(std::vector<Value> positional, Named named = {}) {
  return form_of(Arguments{std::move(positional), std::move(named)});
}

TEST(CallForm, IsTheSameForOtherSizesAndValues) {
  EXPECT_EQ(form_of({zeros({2, 3}), 1}), form_of({zeros({8, 5}), 1}));
  EXPECT_NE(form_of({zeros({2, 3}), 1}), "");
}

TEST(CallForm, TellsApartWhatOtherKeysTellApart) {
  const Tensor x = zeros({2, 3});
  std::vector<Arguments> calls;
  for (const Value& value : {Value(),
                             Value(true),
                             Value(false),
                             Value(0),
                             Value(1),
                             Value(1.0),
                             Value(0.0),
                             Value(-0.0),
                             Value("1"),
                             Value(""),
                             Value("input_ids"),
                             Value("input_idz"),
                             Value(x),
                             Value(zeros({2})),
                             Value(zeros({})),
                             Value(ids({2, 3})),
                             Value::list({}),
                             Value::tuple({}),
                             Value::dict(Named{}),
                             Value::list({x}),
                             Value::tuple({x}),
                             Value::list({x, x}),
                             Value::list({Value::list({x})}),
                             Value::dict(Named{{"a", x}}),
                             Value::dict(Named{{"b", x}}),
                             Value::dict(Named{{"ab", ""}}),
                             Value::dict(Named{{"a", "b"}})}) {
    calls.push_back({{value}, {}});
    calls.push_back({{}, {{"value", value}}});
  }
  for (const Arguments& a : calls) {
    for (const Arguments& b : calls) {
      EXPECT_EQ(form_of(a) == form_of(b), &a == &b);
    }
  }
}

TEST(CallForm, EqualFormsAreOfOneKeyAndOneOrder) {
  struct Facts {
    std::string strict, loose;
    std::vector<std::uint32_t> order;
  };
  std::map<std::string, Facts> known;
  int again = 0;
  RandomValue random(7);
  for (int i = 0; i < 20000; ++i) {
    const Arguments arguments = random.arguments(i % 3);
    const std::string form = form_of(arguments);
    if (form.empty()) {
      continue;
    }
    CallTree tree;
    try {
      flatten(arguments, tree);
    } catch (const ValueError&) {
      continue;  // an argument is given twice: such a call has no tree, and is never served
    }
    const Facts facts{CallKey(tree, true).bytes(), CallKey(tree, false).bytes(),
                      tree.tensor_order()};
    const auto [place, is_new] = known.emplace(form, facts);
    again += is_new ? 0 : 1;
    EXPECT_EQ(place->second.strict, facts.strict);
    EXPECT_EQ(place->second.loose, facts.loose);
    EXPECT_EQ(place->second.order, facts.order);
  }
  EXPECT_GT(again, 100);
  EXPECT_GT(known.size(), 1000U);
}

TEST(CallForm, WhatIsTooLargeOrUnusualHasNone) {
  const Tensor x = zeros({1});
  EXPECT_EQ(form_of({Tensor()}), "");
  EXPECT_EQ(form_of({Value::object("m.C", {{Step::attribute("x"), x}})}), "");
  EXPECT_EQ(form_of({Value::dict({{Constant::integer(1), x}})}), "");
  EXPECT_EQ(form_of({Value(Constant::big_integer("123456789012345678901234567890"))}), "");
  EXPECT_EQ(form_of({std::string(1000, 'x')}), "");  // kept by its digest
  EXPECT_NE(form_of(std::vector<Value>(CallForm::kMaxTensors, x)), "");
  EXPECT_EQ(form_of(std::vector<Value>(CallForm::kMaxTensors + 1, x)), "");
  EXPECT_NE(form_of(std::vector<Value>(200, 1)), "");
  EXPECT_EQ(form_of(std::vector<Value>(CallForm::kMaxWords, Value())), "");
  // At the very end of the room, too.
  for (std::size_t count = CallForm::kMaxWords - 8; count < CallForm::kMaxWords; ++count) {
    std::vector<Value> values(count, Value());
    values.emplace_back("a text of some words");
    const std::size_t words = 2 + count + 4;  // two containers and the letters
    EXPECT_EQ(form_of(values).empty(), words > CallForm::kMaxWords) << count;
  }
}

CallForm& take(CallForm& form, std::int64_t number) {
  take_form({{Value(number)}, {}}, form);
  return form;
}

TEST(KnownForms, AreFoundByTheirWords) {
  KnownForms forms;
  for (std::uint32_t i = 0; i < KnownForms::kMaxForms + 10; ++i) {
    CallForm form;
    EXPECT_EQ(forms.find(take(form, i)), nullptr);
    forms.add(form, i, {i, 0});
    forms.add(form, i + 1, {});  // it is known already
  }
  for (std::uint32_t i = 0; i < KnownForms::kMaxForms + 10; ++i) {
    CallForm form;
    const KnownForm* known = forms.find(take(form, i));
    ASSERT_EQ(known != nullptr, i < KnownForms::kMaxForms);
    if (known != nullptr) {
      EXPECT_EQ(known->graph, i);
      EXPECT_EQ(known->order, (std::vector<std::uint32_t>{i, 0}));
    }
  }
  CallForm incomplete;
  incomplete.give_up();
  forms.add(incomplete, 0, {});
  EXPECT_EQ(forms.find(incomplete), nullptr);
}

TEST(KnownForms, MayBeReadWhileSomeAreAdded) {
  KnownForms forms;
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&forms, thread] {
      for (std::uint32_t i = 0; i < 400; ++i) {
        CallForm form;
        take(form, i);
        if (thread % 2 == 0) {
          forms.add(form, i, {});
        }
        const KnownForm* known = forms.find(form);
        EXPECT_TRUE(thread % 2 != 0 || known != nullptr);
        EXPECT_TRUE(known == nullptr || known->graph == i);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace graphtune

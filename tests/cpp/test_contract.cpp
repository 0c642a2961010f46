#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calls.h"
#include "graphtune/contract.h"
#include "graphtune/error.h"
#include "graphtune/sample_metadata.h"

namespace graphtune {
namespace {

using test::Call;
using test::ids;
using test::message_of;
using test::Named;
using test::zeros;
using ::testing::HasSubstr;

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();

std::vector<std::vector<SizeExpr>> sizes(const std::vector<std::vector<std::string>>& texts) {
  std::vector<std::vector<SizeExpr>> parsed;
  for (const auto& tensor : texts) {
    std::vector<SizeExpr>& axes = parsed.emplace_back();
    for (const std::string& text : tensor) {
      axes.push_back(SizeExpr::parse(text));
    }
  }
  return parsed;
}

/// attention_mask (b, s0), input_ids (b, s0): canonical order is by name.
Contract text_contract() {
  return Contract(sizes({{"b", "s0"}, {"b", "s0"}}), {{1, 8}, {3, 64}}, {});
}

Named text(std::initializer_list<std::int64_t> ids_sizes,
           std::initializer_list<std::int64_t> mask_sizes) {
  return {{"input_ids", ids(ids_sizes)}, {"attention_mask", ids(mask_sizes)}};
}

std::optional<Miss> check(const Contract& contract, const Call& call) {
  std::vector<std::int64_t> symbols(contract.symbols().size());
  return contract.check_sizes(call.tree, symbols);
}

TEST(Contract, ReadsSymbolsOffACall) {
  const Contract contract(sizes({{"b", "s0"}, {"2*b", "s0+s1"}, {"s1", "5"}}),
                          {{1, 8}, {3, 64}, {0, 9}}, {});
  const Call call({zeros({4, 7}), zeros({8, 9}), zeros({2, 5})});
  std::vector<std::int64_t> symbols(3);
  EXPECT_FALSE(contract.check_sizes(call.tree, symbols));
  EXPECT_EQ(symbols, (std::vector<std::int64_t>{4, 7, 2}));
  EXPECT_EQ(contract.used_symbols(), (std::vector<std::uint32_t>{0, 1, 2}));
}

TEST(Contract, ReadsSymbolsOffMultiplesAndOffsets) {
  const Contract contract(sizes({{"3*b", "s0+1"}}), {{1, 8}, {3, 64}}, {});
  std::vector<std::int64_t> symbols(2);
  const Call good({zeros({6, 5})});
  EXPECT_FALSE(contract.check_sizes(good.tree, symbols));
  EXPECT_EQ(symbols, (std::vector<std::int64_t>{2, 4}));

  const auto miss = check(contract, Call({zeros({7, 5})}));
  ASSERT_TRUE(miss);
  EXPECT_EQ(miss->reason, MissReason::Relation);
  EXPECT_THAT(miss->message, HasSubstr("axis 0 of [0] has size 7; allowed is 3*b with b = 1 to 8"));
  const auto range = check(contract, Call({zeros({27, 5})}));
  ASSERT_TRUE(range);
  EXPECT_EQ(range->reason, MissReason::Range);
  EXPECT_EQ(check(contract, Call({zeros({3, 3})}))->reason, MissReason::Range);  // s0 = 2
}

TEST(Contract, PrefersThePlainAxisAsTheSymbolsSource) {
  const Contract contract(sizes({{"2*b"}, {"b+1"}, {"b"}}), {{1, 8}}, {});
  const auto miss = check(contract, Call({zeros({9}), zeros({5}), zeros({4})}));
  ASSERT_TRUE(miss);
  EXPECT_EQ(miss->reason, MissReason::Relation);
  EXPECT_THAT(miss->message, HasSubstr("axis 0 of [0] has size 9; it must equal 2*b = 8 "
                                       "(b = 4: axis 0 of [2])"));
}

TEST(Contract, UnusedSymbolTakesItsMinimum) {
  const Contract contract(sizes({{"s0"}}), {{2, 2}, {1, 4}}, {});
  std::vector<std::int64_t> symbols(2, 77);
  EXPECT_FALSE(contract.check_sizes(Call({zeros({3})}).tree, symbols));
  EXPECT_EQ(symbols, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(contract.used_symbols(), (std::vector<std::uint32_t>{1}));
}

TEST(Contract, MessagesNameTensorAxisSizeAndRange) {
  const Contract contract = text_contract();
  EXPECT_FALSE(check(contract, Call(text({2, 12}, {2, 12}))));
  EXPECT_FALSE(check(contract, Call(text({8, 64}, {8, 64}))));
  EXPECT_FALSE(check(contract, Call(text({1, 3}, {1, 3}))));

  const auto range = check(contract, Call(text({2, 65}, {2, 65})));
  ASSERT_TRUE(range);
  EXPECT_EQ(range->reason, MissReason::Range);
  EXPECT_EQ(range->message,
            "axis 1 of ['attention_mask'] has size 65; allowed is s0 = 3 to 64. Record a sample of "
            "this size and tune again.");

  const auto relation = check(contract, Call(text({2, 13}, {2, 12})));
  ASSERT_TRUE(relation);
  EXPECT_EQ(relation->reason, MissReason::Relation);
  EXPECT_THAT(relation->message, HasSubstr("axis 1 of ['input_ids'] has size 13; it must equal "
                                           "s0 = 12 (axis 1 of ['attention_mask'])"));
}

TEST(Contract, CallersOrderDoesNotMatter) {
  // Canonical: a (3), b (s0). The caller gives b first.
  const Contract contract(sizes({{"3"}, {"s0"}}), {{0, 0}, {4, 6}}, {});
  EXPECT_FALSE(check(contract, Call(Named{{"b", zeros({5})}, {"a", zeros({3})}})));
  const auto miss = check(contract, Call(Named{{"b", zeros({5})}, {"a", zeros({4})}}));
  ASSERT_TRUE(miss);
  EXPECT_THAT(miss->message, HasSubstr("axis 0 of ['a'] has size 4; allowed is 3. "));
}

TEST(Contract, SumOfSymbols) {
  const Contract contract(sizes({{"s0"}, {"s1"}, {"s0+s1"}}), {{0, 0}, {1, 9}, {0, 9}}, {});
  EXPECT_FALSE(check(contract, Call({zeros({3}), zeros({0}), zeros({3})})));
  const auto miss = check(contract, Call({zeros({3}), zeros({4}), zeros({8})}));
  ASSERT_TRUE(miss);
  EXPECT_THAT(miss->message, HasSubstr("axis 0 of [2] has size 8; it must equal s0+s1 = 7 "
                                       "(s0 = 3: axis 0 of [0], s1 = 4: axis 0 of [1])"));
}

/// A call of tensors that only claim their sizes, which no Tensor may.
CallTree tree_of(const std::vector<TensorView>& tensors) {
  CallTree tree;
  tree.open(NodeKind::Tuple);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tree.step_index(static_cast<std::int64_t>(i));
    tree.add_tensor(tensors[i]);
  }
  tree.close();
  tree.open(NodeKind::Dict);
  tree.close();
  tree.finish();
  return tree;
}

TEST(Contract, HugeSizesDoNotOverflow) {
  const Contract contract(sizes({{"2*s0+1"}, {"s0"}}), {{0, 0}, {0, 100}}, {});
  for (const std::int64_t size : {kMaxInt, kMaxInt - 1, std::int64_t{0}}) {
    TensorView view;
    view.rank = 1;
    view.sizes = &size;
    std::vector<std::int64_t> symbols(2);
    EXPECT_TRUE(contract.check_sizes(tree_of({view, view}), symbols)) << size;
  }
}

TEST(Contract, CopyIsIndependent) {
  auto original = std::make_unique<Contract>(text_contract());
  const Contract copy = *original;
  EXPECT_TRUE(copy == *original);
  original.reset();
  EXPECT_FALSE(check(copy, Call(text({2, 12}, {2, 12}))));
  EXPECT_TRUE(check(copy, Call(text({2, 13}, {2, 12}))));
}

TEST(Contract, RefusesWhatCanNotBeChecked) {
  const auto error = [](const std::vector<std::vector<std::string>>& texts,
                        std::vector<SymbolRange> symbols, std::vector<IndexRange> indices = {}) {
    return message_of<ValueError>(
        [&] { Contract(sizes(texts), std::move(symbols), std::move(indices)); });
  };
  EXPECT_THAT(error({{"b"}}, {{4, 1}}), HasSubstr("range of b is 4 to 1"));
  EXPECT_THAT(error({{"b"}}, {{-1, 1}}), HasSubstr("negative"));
  EXPECT_THAT(error({{"s0"}}, {{1, 1}}), HasSubstr("refers to s0, which has no range"));
  EXPECT_THAT(error({{"s0+s1"}}, {{0, 0}, {1, 2}, {1, 2}}),
              HasSubstr("s0 is part of the size s0+s1, but no axis shows it"));
  EXPECT_THAT(error({{"s0"}, {"s0-5"}}, {{0, 0}, {2, 9}}), HasSubstr("can be -3"));
  EXPECT_THAT(error({{"4611686018427387904*b"}}, {{1, 2}}), HasSubstr("overflows"));
  EXPECT_THAT(error({{"b"}, {"b+9223372036854775807"}}, {{1, 2}}), HasSubstr("overflows"));
  EXPECT_THAT(error({{"b"}}, {{1, 2}}, {{1, 0, 5}}), HasSubstr("for tensor 1"));
  EXPECT_THAT(error({{"b"}}, {{1, 2}}, {{0, 5, 0}}), HasSubstr("empty"));
}

TEST(Contract, ACallOfAnotherGraphIsAnErrorNotAnOverrun) {
  const Contract contract = text_contract();
  EXPECT_THROW((void)check(contract, Call({ids({2, 3})})), ValueError);
  EXPECT_THROW((void)check(contract, Call({ids({2}), ids({2})})), ValueError);
  Call detached(text({2, 3}, {2, 3}));
  detached.tree.detach();
  EXPECT_THROW((void)check(contract, detached), ValueError);
}

TEST(Contract, FromMetadataTakesTheRecordedRanges) {
  SampleMetadata metadata(Call(text({1, 5}, {1, 5})).tree, true, 1);
  (void)metadata.observe(Call(text({2, 9}, {2, 9})).tree, 2);
  (void)metadata.observe(Call(text({4, 7}, {4, 7})).tree, 4);
  const Contract contract = Contract::from_metadata(metadata);
  EXPECT_FALSE(check(contract, Call(text({3, 6}, {3, 6}))));
  EXPECT_TRUE(check(contract, Call(text({5, 6}, {5, 6}))));
  EXPECT_TRUE(check(contract, Call(text({3, 10}, {3, 10}))));
  EXPECT_TRUE(check(contract, Call(text({3, 6}, {3, 7}))));
}

// ---- conditions

std::vector<SizeCondition> conditions(const std::vector<std::string>& texts) {
  std::vector<SizeCondition> parsed;
  for (const std::string& text : texts) {
    parsed.push_back(SizeCondition::parse(text));
  }
  return parsed;
}

TEST(Contract, ConditionsHaveToHold) {
  const Contract contract(sizes({{"b", "s0"}, {"2*b"}}), {{1, 8}, {3, 64}}, {},
                          conditions({"b*s0 <= 20", "s0 % 2 == 0"}));
  EXPECT_FALSE(check(contract, Call({zeros({5, 4}), zeros({10})})));
  EXPECT_FALSE(check(contract, Call({zeros({1, 20}), zeros({2})})));

  const auto miss = check(contract, Call({zeros({4, 8}), zeros({8})}));
  ASSERT_TRUE(miss);
  EXPECT_EQ(miss->reason, MissReason::Relation);
  EXPECT_EQ(miss->message,
            "b*s0 <= 20 does not hold for b = 4, s0 = 8 (b: axis 0 of [0], s0: axis 1 of [0]). The "
            "engines are right only where it holds: call eagerly, miss policy 'eager'.");
  EXPECT_THAT(check(contract, Call({zeros({1, 7}), zeros({2})}))->message,
              HasSubstr("s0 % 2 == 0 does not hold for s0 = 7 (s0: axis 1 of [0])"));
  // Ranges and relations are said first.
  EXPECT_EQ(check(contract, Call({zeros({9, 8}), zeros({18})}))->reason, MissReason::Range);
  EXPECT_THAT(check(contract, Call({zeros({4, 8}), zeros({7})}))->message, HasSubstr("2*b = 8"));
}

TEST(Contract, ConditionsSeeSymbolsReadOffMultiplesInAnyOrder) {
  const Contract contract(sizes({{"s0+1"}, {"3*b"}}), {{0, 8}, {0, 64}}, {},
                          conditions({"b+s0 != 6"}));
  EXPECT_FALSE(check(contract, Call(Named{{"z", zeros({9})}, {"a", zeros({5})}})));
  EXPECT_THAT(check(contract, Call(Named{{"z", zeros({6})}, {"a", zeros({5})}}))->message,
              HasSubstr("b+s0 != 6 does not hold for b = 2, s0 = 4 (b: axis 0 of ['z'], "
                        "s0: axis 0 of ['a'])"));
}

TEST(Contract, ConditionsOfValuesThatNoCallHas) {
  const Contract contract(sizes({{"b", "s0"}}), {{1, 8}, {3, 64}}, {}, conditions({"b*s0 <= 20"}));
  EXPECT_TRUE(contract.conditions_hold(std::vector<std::int64_t>{4, 5}));
  EXPECT_FALSE(contract.conditions_hold(std::vector<std::int64_t>{4, 6}));
  EXPECT_THROW((void)contract.conditions_hold(std::vector<std::int64_t>{4}), ValueError);
  EXPECT_TRUE(text_contract().conditions_hold(std::vector<std::int64_t>{8, 64}));
}

TEST(Contract, ConditionsArePartOfEquality) {
  const auto contract = [](const std::vector<std::string>& texts) {
    return Contract(sizes({{"b", "s0"}}), {{1, 8}, {3, 64}}, {}, conditions(texts));
  };
  EXPECT_TRUE(contract({"b*s0<=20"}) == contract({"b * s0 <= 20"}));
  EXPECT_FALSE(contract({"b*s0 <= 20"}) == contract({"b*s0 <= 21"}));
  EXPECT_FALSE(contract({"b*s0 <= 20"}) == contract({}));
}

TEST(Contract, ConditionsThatCanNotBeCheckedAreRefused) {
  const auto error = [](const std::string& text) {
    return message_of<ValueError>([&] {
      Contract(sizes({{"b"}, {"s1"}}), {{1, 8}, {1, 8}, {1, 8}}, {}, conditions({text}));
    });
  };
  EXPECT_EQ(error("b < s2"), "contract: the condition b < s2 refers to s2, which has no range");
  EXPECT_EQ(error("b < s0"), "contract: the condition b < s0 refers to s0, which no axis shows");
  EXPECT_EQ(error("1 < 2"), "contract: the condition 1 < 2 has no symbol");
}

// ---- index values

template <typename T>
Tensor tensor_of(std::vector<T> values, const Dims& dims) {
  return Tensor::from(std::span<const T>(values), dims);
}

std::optional<Miss> check_index(const Tensor& tensor, std::int64_t low, std::int64_t high) {
  std::vector<SizeExpr> axes(tensor.sizes().size());
  std::vector<SizeExpr> shape;
  for (const std::int64_t size : tensor.sizes()) {
    shape.push_back(SizeExpr{size, {}});
  }
  const Contract contract({shape}, {}, {{0, low, high}});
  return contract.check_indices(Call(Named{{"ids", tensor}}).tree);
}

template <typename T>
class IndexTypes : public ::testing::Test {};
using AllIndexTypes =
    ::testing::Types<std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(IndexTypes, AllIndexTypes);

TYPED_TEST(IndexTypes, ValuesAreHeldAgainstTheRange) {
  using T = TypeParam;
  const Tensor tensor = tensor_of<T>({0, 1, 2, 100, 4, 5}, {2, 3});
  EXPECT_FALSE(check_index(tensor, 0, 100));
  const auto miss = check_index(tensor, 0, 99);
  ASSERT_TRUE(miss);
  EXPECT_EQ(miss->reason, MissReason::IndexRange);
  EXPECT_EQ(miss->message,
            "['ids'] has the value 100 at [1, 0]; it is used as an index, and 0 to 99 is allowed. "
            "Correct the input.");
  EXPECT_THAT(check_index(tensor, 1, 100)->message, HasSubstr("value 0 at [0, 0]"));
  // Ranges beyond the type
  EXPECT_FALSE(check_index(tensor, 0, kMaxInt));
  EXPECT_FALSE(check_index(tensor, std::numeric_limits<std::int64_t>::min(), kMaxInt));
  EXPECT_TRUE(check_index(tensor, -1000, -200));
}

TEST(Contract, NegativeIndicesAreAllowedWhereTheRangeSaysSo) {
  const Tensor tensor = tensor_of<std::int64_t>({-1, -5, 4}, {3});
  EXPECT_FALSE(check_index(tensor, -5, 4));
  EXPECT_THAT(check_index(tensor, -4, 4)->message, HasSubstr("value -5 at [1]"));
}

TEST(Contract, IndexValuesAreFoundBehindAnyStrides) {
  std::vector<std::int64_t> values(24);
  std::iota(values.begin(), values.end(), 0);
  const Tensor base = tensor_of<std::int64_t>(values, {24});
  const auto view = [&](const Dims& dims, const Dims& strides, std::int64_t offset = 0) {
    return Tensor(base.data_as<std::int64_t>() + offset, DType::Int64, dims, strides, base.owner());
  };
  // Transposed (4, 6) -> (6, 4): element [5, 3] is 23
  EXPECT_FALSE(check_index(view({6, 4}, {1, 6}), 0, 23));
  EXPECT_THAT(check_index(view({6, 4}, {1, 6}), 0, 22)->message, HasSubstr("value 23 at [5, 3]"));
  // Every second column: 23 is not seen
  EXPECT_FALSE(check_index(view({4, 3}, {6, 2}), 0, 22));
  EXPECT_THAT(check_index(view({4, 3}, {6, 2}), 0, 21)->message, HasSubstr("value 22 at [3, 2]"));
  // Expanded: looked at once, however large it claims to be
  EXPECT_FALSE(check_index(view({1'000'000'000, 1'000, 2}, {0, 0, 1}), 0, 1));
  EXPECT_THAT(check_index(view({1'000'000'000, 3}, {0, 1}), 0, 1)->message,
              HasSubstr("value 2 at [0, 2]"));
  EXPECT_FALSE(check_index(view({1'000'000'000'000}, {0}), 0, 1));
  // No element, a scalar
  EXPECT_FALSE(check_index(view({0, 5}, {5, 1}), 50, 60));
  EXPECT_THAT(check_index(view({}, {}, 7), 0, 6)->message, HasSubstr("value 7 at []"));
}

TEST(Contract, ALateValueInALongTensorIsFound) {
  std::vector<std::int32_t> values(5000, 3);
  values[4999] = 70000;
  EXPECT_THAT(check_index(tensor_of<std::int32_t>(values, {50, 100}), 0, 10)->message,
              HasSubstr("value 70000 at [49, 99]"));
}

TEST(Contract, IndexTensorsThatCanNotBeSeenAreRefused) {
  std::int64_t data = 0;
  const Tensor on_gpu(&data, DType::Int64, {1}, {1}, nullptr, DeviceType::Cuda, 0);
  const auto miss = check_index(on_gpu, 0, 5);
  ASSERT_TRUE(miss);
  EXPECT_EQ(miss->reason, MissReason::IndexRange);
  EXPECT_THAT(miss->message, HasSubstr("['ids'] is a strided tensor on cuda"));
  EXPECT_THAT(check_index(zeros({1}), 0, 5)->message, HasSubstr("is float32"));
  const Tensor empty_handed(nullptr, DType::Int64, {1}, {1}, nullptr);
  EXPECT_THAT(check_index(empty_handed, 0, 5)->message, HasSubstr("has no data"));
}

}  // namespace
}  // namespace graphtune

// The document's outputs: what it prints for each of its samples, and what make_batch gives there.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "calls.h"
#include "graphtune/batch.h"
#include "graphtune/sample_metadata.h"

namespace graphtune {
namespace {

using test::Call;
using test::ids;
using test::Named;
using test::zeros;

SampleMetadata from_inputs(std::vector<Value> positional, Named named, bool strict = false,
                           std::optional<std::int64_t> batch_size = std::nullopt) {
  return SampleMetadata(Call(std::move(positional), std::move(named)).tree, strict, batch_size);
}

/// A raw string without the line break that it begins with.
std::string text(const char* raw) { return raw + 1; }

std::string full(const SampleMetadata& metadata) { return metadata.describe(InfoLevel::Full); }

Value model_input(Tensor data, const char* metadata) {
  return Value::object("document.ModelInput", {{Step::attribute("data"), std::move(data)},
                                               {Step::attribute("metadata"), metadata}});
}

Named model_inputs(std::int64_t batch, std::int64_t length) {
  return {{"inputs", Value::object("document.ModelInputs",
                                   {{Step::attribute("input_ids"), ids({batch, length})},
                                    {Step::attribute("attention_mask"), zeros({batch, length})},
                                    {Step::attribute("position_ids"), ids({batch, length})}})}};
}

std::string sizes(const Value& value) { return shape_to_string(value.tensor().sizes().span()); }

TEST(Seed, OneTensor) {
  EXPECT_EQ(full(from_inputs({zeros({2, 3, 4})}, {})), text(R"(
Tensors:
╒═══════════╤════════╤═══════════╤═════════════╤═════════════╤═══════════════╕
│ Locator   │ Name   │ Shape     │ Min Shape   │ Max Shape   │ Dtype         │
╞═══════════╪════════╪═══════════╪═════════════╪═════════════╪═══════════════╡
│ [0]       │ args_0 │ [2, 3, 4] │ [2, 3, 4]   │ [2, 3, 4]   │ torch.float32 │
╘═══════════╧════════╧═══════════╧═════════════╧═════════════╧═══════════════╛)"));
}

TEST(Seed, SeveralPositionalArguments) {
  EXPECT_EQ(full(from_inputs({zeros({2, 3}), zeros({4, 5})}, {})), text(R"(
Tensors:
╒═══════════╤════════╤═════════╤═════════════╤═════════════╤═══════════════╕
│ Locator   │ Name   │ Shape   │ Min Shape   │ Max Shape   │ Dtype         │
╞═══════════╪════════╪═════════╪═════════════╪═════════════╪═══════════════╡
│ [0]       │ args_0 │ [2, 3]  │ [2, 3]      │ [2, 3]      │ torch.float32 │
├───────────┼────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ [1]       │ args_1 │ [4, 5]  │ [4, 5]      │ [4, 5]      │ torch.float32 │
╘═══════════╧════════╧═════════╧═════════════╧═════════════╧═══════════════╛)"));
}

TEST(Seed, KeywordArguments) {
  EXPECT_EQ(full(from_inputs({}, {{"input_tensor", zeros({3, 4})}, {"mask", zeros({3, 1})}})),
            text(R"(
Tensors:
╒══════════════════╤═════════════════════╤═════════╤═════════════╤═════════════╤═══════════════╕
│ Locator          │ Name                │ Shape   │ Min Shape   │ Max Shape   │ Dtype         │
╞══════════════════╪═════════════════════╪═════════╪═════════════╪═════════════╪═══════════════╡
│ ['input_tensor'] │ kwargs_input_tensor │ [3, 4]  │ [3, 4]      │ [3, 4]      │ torch.float32 │
├──────────────────┼─────────────────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ ['mask']         │ kwargs_mask         │ [3, 1]  │ [3, 1]      │ [3, 1]      │ torch.float32 │
╘══════════════════╧═════════════════════╧═════════╧═════════════╧═════════════╧═══════════════╛)"));
}

TEST(Seed, ConstantsAreLeftOut) {
  EXPECT_EQ(full(from_inputs({"some_string", zeros({2, 2}), 42},
                             {{"data", zeros({3, 3})}, {"learning_rate", 0.001}})),
            text(R"(
Tensors:
╒═══════════╤═════════════╤═════════╤═════════════╤═════════════╤═══════════════╕
│ Locator   │ Name        │ Shape   │ Min Shape   │ Max Shape   │ Dtype         │
╞═══════════╪═════════════╪═════════╪═════════════╪═════════════╪═══════════════╡
│ [1]       │ args_1      │ [2, 2]  │ [2, 2]      │ [2, 2]      │ torch.float32 │
├───────────┼─────────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ ['data']  │ kwargs_data │ [3, 3]  │ [3, 3]      │ [3, 3]      │ torch.float32 │
╘═══════════╧═════════════╧═════════╧═════════════╧═════════════╧═══════════════╛)"));
}

TEST(Seed, StrictShowsConstants) {
  const auto metadata = [](bool strict) {
    return from_inputs({1, 2, 3, zeros({2, 2})}, {{"t", zeros({2, 3})}, {"other", "abc"}}, strict);
  };
  EXPECT_EQ(full(metadata(false)), text(R"(
Tensors:
╒═══════════╤══════════╤═════════╤═════════════╤═════════════╤═══════════════╕
│ Locator   │ Name     │ Shape   │ Min Shape   │ Max Shape   │ Dtype         │
╞═══════════╪══════════╪═════════╪═════════════╪═════════════╪═══════════════╡
│ [3]       │ args_3   │ [2, 2]  │ [2, 2]      │ [2, 2]      │ torch.float32 │
├───────────┼──────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ ['t']     │ kwargs_t │ [2, 3]  │ [2, 3]      │ [2, 3]      │ torch.float32 │
╘═══════════╧══════════╧═════════╧═════════════╧═════════════╧═══════════════╛)"));
  EXPECT_EQ(full(metadata(true)), text(R"(
Tensors:
╒═══════════╤══════════╤═════════╤═════════════╤═════════════╤═══════════════╕
│ Locator   │ Name     │ Shape   │ Min Shape   │ Max Shape   │ Dtype         │
╞═══════════╪══════════╪═════════╪═════════════╪═════════════╪═══════════════╡
│ [3]       │ args_3   │ [2, 2]  │ [2, 2]      │ [2, 2]      │ torch.float32 │
├───────────┼──────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ ['t']     │ kwargs_t │ [2, 3]  │ [2, 3]      │ [2, 3]      │ torch.float32 │
╘═══════════╧══════════╧═════════╧═════════════╧═════════════╧═══════════════╛
Other:
╒═══════════╤══════════════╤═════════╕
│ Locator   │ Name         │ Value   │
╞═══════════╪══════════════╪═════════╡
│ [0]       │ args_0       │ 1       │
├───────────┼──────────────┼─────────┤
│ [1]       │ args_1       │ 2       │
├───────────┼──────────────┼─────────┤
│ [2]       │ args_2       │ 3       │
├───────────┼──────────────┼─────────┤
│ ['other'] │ kwargs_other │ abc     │
╘═══════════╧══════════════╧═════════╛)"));
}

TEST(Seed, NestedStructures) {
  EXPECT_EQ(full(from_inputs(
                {"first_arg", zeros({1}), Value::tuple({zeros({2}), zeros({3})}),
                 Value::dict({{std::string("t"), zeros({4})}}), model_input(zeros({5}), "info")},
                {{"t1", zeros({1, 1})},
                 {"t2", Value::list({zeros({2, 2}), zeros({3, 3})})},
                 {"t3", model_input(zeros({4, 4}), "xyz")},
                 {"last", "other"}},
                true)),
            text(R"(
Tensors:
╒═════════════╤════════════════╤═════════╤═════════════╤═════════════╤═══════════════╕
│ Locator     │ Name           │ Shape   │ Min Shape   │ Max Shape   │ Dtype         │
╞═════════════╪════════════════╪═════════╪═════════════╪═════════════╪═══════════════╡
│ [1]         │ args_1         │ [1]     │ [1]         │ [1]         │ torch.float32 │
├─────────────┼────────────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ [2][0]      │ args_2_0       │ [2]     │ [2]         │ [2]         │ torch.float32 │
├─────────────┼────────────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ [2][1]      │ args_2_1       │ [3]     │ [3]         │ [3]         │ torch.float32 │
├─────────────┼────────────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ [3]['t']    │ args_3_t       │ [4]     │ [4]         │ [4]         │ torch.float32 │
├─────────────┼────────────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ [4].data    │ args_4.data    │ [5]     │ [5]         │ [5]         │ torch.float32 │
├─────────────┼────────────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ ['t1']      │ kwargs_t1      │ [1, 1]  │ [1, 1]      │ [1, 1]      │ torch.float32 │
├─────────────┼────────────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ ['t2'][0]   │ kwargs_t2_0    │ [2, 2]  │ [2, 2]      │ [2, 2]      │ torch.float32 │
├─────────────┼────────────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ ['t2'][1]   │ kwargs_t2_1    │ [3, 3]  │ [3, 3]      │ [3, 3]      │ torch.float32 │
├─────────────┼────────────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ ['t3'].data │ kwargs_t3.data │ [4, 4]  │ [4, 4]      │ [4, 4]      │ torch.float32 │
╘═════════════╧════════════════╧═════════╧═════════════╧═════════════╧═══════════════╛
Other:
╒═════════════════╤════════════════════╤═══════════╕
│ Locator         │ Name               │ Value     │
╞═════════════════╪════════════════════╪═══════════╡
│ [0]             │ args_0             │ first_arg │
├─────────────────┼────────────────────┼───────────┤
│ [4].metadata    │ args_4.metadata    │ info      │
├─────────────────┼────────────────────┼───────────┤
│ ['last']        │ kwargs_last        │ other     │
├─────────────────┼────────────────────┼───────────┤
│ ['t3'].metadata │ kwargs_t3.metadata │ xyz       │
╘═════════════════╧════════════════════╧═══════════╛)"));
}

TEST(Seed, InfoLevels) {
  const SampleMetadata metadata =
      from_inputs({zeros({2, 3}), zeros({4, 5, 6})}, {{"mask", zeros({2, 1})}});
  EXPECT_EQ(metadata.describe(InfoLevel::Short), text(R"(
Tensors: args_0, args_1, kwargs_mask)"));
  EXPECT_EQ(metadata.describe(InfoLevel::Medium), text(R"(
Tensors:
Locator    Name         Shape
---------  -----------  ---------
[0]        args_0       [2, 3]
[1]        args_1       [4, 5, 6]
['mask']   kwargs_mask  [2, 1])"));
  EXPECT_EQ(metadata.describe(InfoLevel::Full), text(R"(
Tensors:
╒═══════════╤═════════════╤═══════════╤═════════════╤═════════════╤═══════════════╕
│ Locator   │ Name        │ Shape     │ Min Shape   │ Max Shape   │ Dtype         │
╞═══════════╪═════════════╪═══════════╪═════════════╪═════════════╪═══════════════╡
│ [0]       │ args_0      │ [2, 3]    │ [2, 3]      │ [2, 3]      │ torch.float32 │
├───────────┼─────────────┼───────────┼─────────────┼─────────────┼───────────────┤
│ [1]       │ args_1      │ [4, 5, 6] │ [4, 5, 6]   │ [4, 5, 6]   │ torch.float32 │
├───────────┼─────────────┼───────────┼─────────────┼─────────────┼───────────────┤
│ ['mask']  │ kwargs_mask │ [2, 1]    │ [2, 1]      │ [2, 1]      │ torch.float32 │
╘═══════════╧═════════════╧═══════════╧═════════════╧═════════════╧═══════════════╛)"));
}

TEST(Seed, LearnsFromTwoSamples) {
  SampleMetadata initial =
      from_inputs({zeros({1}), zeros({2}), zeros({5})}, {{"data", zeros({1, 10})}}, false, 1);
  EXPECT_EQ(full(initial), text(R"(
Tensors:
╒═══════════╤═════════════╤═════════╤═════════════╤═════════════╤═══════════════╕
│ Locator   │ Name        │ Shape   │ Min Shape   │ Max Shape   │ Dtype         │
╞═══════════╪═════════════╪═════════╪═════════════╪═════════════╪═══════════════╡
│ [0]       │ args_0      │ [1]     │ [1]         │ [1]         │ torch.float32 │
├───────────┼─────────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ [1]       │ args_1      │ [2]     │ [2]         │ [2]         │ torch.float32 │
├───────────┼─────────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ [2]       │ args_2      │ [5]     │ [5]         │ [5]         │ torch.float32 │
├───────────┼─────────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ ['data']  │ kwargs_data │ [1, 10] │ [1, 10]     │ [1, 10]     │ torch.float32 │
╘═══════════╧═════════════╧═════════╧═════════════╧═════════════╧═══════════════╛)"));
  const SampleMetadata second =
      from_inputs({zeros({2}), zeros({5}), zeros({15})}, {{"data", zeros({2, 25})}}, false, 2);
  EXPECT_EQ(full(second), text(R"(
Tensors:
╒═══════════╤═════════════╤═════════╤═════════════╤═════════════╤═══════════════╕
│ Locator   │ Name        │ Shape   │ Min Shape   │ Max Shape   │ Dtype         │
╞═══════════╪═════════════╪═════════╪═════════════╪═════════════╪═══════════════╡
│ [0]       │ args_0      │ [2]     │ [2]         │ [2]         │ torch.float32 │
├───────────┼─────────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ [1]       │ args_1      │ [5]     │ [5]         │ [5]         │ torch.float32 │
├───────────┼─────────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ [2]       │ args_2      │ [15]    │ [15]        │ [15]        │ torch.float32 │
├───────────┼─────────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ ['data']  │ kwargs_data │ [2, 25] │ [2, 25]     │ [2, 25]     │ torch.float32 │
╘═══════════╧═════════════╧═════════╧═════════════╧═════════════╧═══════════════╛)"));
  initial.update_shapes_seen(second);
  EXPECT_EQ(full(initial), text(R"(
Tensors:
╒═══════════╤═════════════╤════════════════════╤═════════════╤═════════════╤═══════════════╕
│ Locator   │ Name        │ Shape              │ Min Shape   │ Max Shape   │ Dtype         │
╞═══════════╪═════════════╪════════════════════╪═════════════╪═════════════╪═══════════════╡
│ [0]       │ args_0      │ ['batch0']         │ [1]         │ [2]         │ torch.float32 │
├───────────┼─────────────┼────────────────────┼─────────────┼─────────────┼───────────────┤
│ [1]       │ args_1      │ ['dim0']           │ [2]         │ [5]         │ torch.float32 │
├───────────┼─────────────┼────────────────────┼─────────────┼─────────────┼───────────────┤
│ [2]       │ args_2      │ ['dim0']           │ [5]         │ [15]        │ torch.float32 │
├───────────┼─────────────┼────────────────────┼─────────────┼─────────────┼───────────────┤
│ ['data']  │ kwargs_data │ ['batch0', 'dim1'] │ [1, 10]     │ [2, 25]     │ torch.float32 │
╘═══════════╧═════════════╧════════════════════╧═════════════╧═════════════╧═══════════════╛)"));
}

TEST(Seed, MakesABatch) {
  SampleMetadata metadata =
      from_inputs({zeros({1, 5}), zeros({2, 3})}, {{"mask", zeros({1, 10})}}, false, 1);
  metadata.update_shapes_seen(
      from_inputs({zeros({2, 5}), zeros({4, 3})}, {{"mask", zeros({2, 10})}}, false, 2));
  EXPECT_EQ(full(metadata), text(R"(
Tensors:
╒═══════════╤═════════════╤════════════════╤═════════════╤═════════════╤═══════════════╕
│ Locator   │ Name        │ Shape          │ Min Shape   │ Max Shape   │ Dtype         │
╞═══════════╪═════════════╪════════════════╪═════════════╪═════════════╪═══════════════╡
│ [0]       │ args_0      │ ['batch0', 5]  │ [1, 5]      │ [2, 5]      │ torch.float32 │
├───────────┼─────────────┼────────────────┼─────────────┼─────────────┼───────────────┤
│ [1]       │ args_1      │ ['batch0', 3]  │ [2, 3]      │ [4, 3]      │ torch.float32 │
├───────────┼─────────────┼────────────────┼─────────────┼─────────────┼───────────────┤
│ ['mask']  │ kwargs_mask │ ['batch0', 10] │ [1, 10]     │ [2, 10]     │ torch.float32 │
╘═══════════╧═════════════╧════════════════╧═════════════╧═════════════╧═══════════════╛)"));
  const Arguments original{{zeros({1, 5}), zeros({2, 3})}, {{"mask", zeros({1, 10})}}};
  const Arguments batched = make_batch(metadata, original, 10);
  EXPECT_EQ(sizes(batched.positional[0]), "[10, 5]");
  EXPECT_EQ(sizes(batched.positional[1]), "[20, 3]");
  EXPECT_EQ(sizes(batched.named[0].second), "[10, 10]");
}

std::string python_bool(bool value) { return value ? "True" : "False"; }

std::string attributes(const SampleMetadata& metadata) {
  std::string out = "Individual TensorSpec objects:\n";
  for (const auto& [locator, spec] : metadata.tensor_data()) {
    std::vector<std::string> multipliers;
    for (const auto& [axis, multiplier] : spec.get_batch_axis_multipliers()) {
      multipliers.push_back(fmt::format("{}: {}", axis, multiplier));
    }
    out += fmt::format("\nLocator: {}\n  Name: {}\n", locator.to_string(), spec.name());
    out += fmt::format("  Shape: {}\n", shape_to_string(spec.shape()));
    out += fmt::format("  Min Shape: {}\n", shape_to_string(spec.min_shape()));
    out += fmt::format("  Max Shape: {}\n", shape_to_string(spec.max_shape()));
    out += fmt::format("  Dtype: torch.{}\n", to_string(spec.dtype()));
    out += fmt::format("  Has batch axis: {}\n", python_bool(spec.has_batch_axis()));
    out += fmt::format("  Has dynamic axis: {}\n", python_bool(spec.has_dynamic_axis()));
    out += fmt::format("  Batch multipliers: {{{}}}", fmt::join(multipliers, ", "));
  }
  return out;
}

TEST(Seed, TensorSpecs) {
  SampleMetadata metadata = from_inputs({zeros({1, 5})}, {{"data", zeros({1, 10})}}, false, 1);
  metadata.update_shapes_seen(from_inputs({zeros({2, 5})}, {{"data", zeros({2, 20})}}, false, 2));
  EXPECT_EQ(attributes(metadata), text(R"(
Individual TensorSpec objects:

Locator: [0]
  Name: args_0
  Shape: ['batch0', 5]
  Min Shape: [1, 5]
  Max Shape: [2, 5]
  Dtype: torch.float32
  Has batch axis: True
  Has dynamic axis: False
  Batch multipliers: {0: 1}
Locator: ['data']
  Name: kwargs_data
  Shape: ['batch0', 'batch1']
  Min Shape: [1, 10]
  Max Shape: [2, 20]
  Dtype: torch.float32
  Has batch axis: True
  Has dynamic axis: False
  Batch multipliers: {0: 1, 1: 10})"));
}

TEST(Seed, Workflow) {
  SampleMetadata metadata = from_inputs({}, model_inputs(1, 10), false, 1);
  EXPECT_EQ(full(metadata), text(R"(
Tensors:
╒═══════════════════════════╤══════════════════════════════╤═════════╤═════════════╤═════════════╤═══════════════╕
│ Locator                   │ Name                         │ Shape   │ Min Shape   │ Max Shape   │ Dtype         │
╞═══════════════════════════╪══════════════════════════════╪═════════╪═════════════╪═════════════╪═══════════════╡
│ ['inputs'].input_ids      │ kwargs_inputs.input_ids      │ [1, 10] │ [1, 10]     │ [1, 10]     │ torch.int64   │
├───────────────────────────┼──────────────────────────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ ['inputs'].attention_mask │ kwargs_inputs.attention_mask │ [1, 10] │ [1, 10]     │ [1, 10]     │ torch.float32 │
├───────────────────────────┼──────────────────────────────┼─────────┼─────────────┼─────────────┼───────────────┤
│ ['inputs'].position_ids   │ kwargs_inputs.position_ids   │ [1, 10] │ [1, 10]     │ [1, 10]     │ torch.int64   │
╘═══════════════════════════╧══════════════════════════════╧═════════╧═════════════╧═════════════╧═══════════════╛)"));
  metadata.update_shapes_seen(from_inputs({}, model_inputs(2, 15), false, 2));
  EXPECT_EQ(full(metadata), text(R"(
Tensors:
╒═══════════════════════════╤══════════════════════════════╤════════════════════╤═════════════╤═════════════╤═══════════════╕
│ Locator                   │ Name                         │ Shape              │ Min Shape   │ Max Shape   │ Dtype         │
╞═══════════════════════════╪══════════════════════════════╪════════════════════╪═════════════╪═════════════╪═══════════════╡
│ ['inputs'].input_ids      │ kwargs_inputs.input_ids      │ ['batch0', 'dim1'] │ [1, 10]     │ [2, 15]     │ torch.int64   │
├───────────────────────────┼──────────────────────────────┼────────────────────┼─────────────┼─────────────┼───────────────┤
│ ['inputs'].attention_mask │ kwargs_inputs.attention_mask │ ['batch0', 'dim1'] │ [1, 10]     │ [2, 15]     │ torch.float32 │
├───────────────────────────┼──────────────────────────────┼────────────────────┼─────────────┼─────────────┼───────────────┤
│ ['inputs'].position_ids   │ kwargs_inputs.position_ids   │ ['batch0', 'dim1'] │ [1, 10]     │ [2, 15]     │ torch.int64   │
╘═══════════════════════════╧══════════════════════════════╧════════════════════╧═════════════╧═════════════╧═══════════════╛)"));
  metadata.update_shapes_seen(from_inputs({}, model_inputs(4, 20), false, 4));
  EXPECT_EQ(full(metadata), text(R"(
Tensors:
╒═══════════════════════════╤══════════════════════════════╤════════════════════╤═════════════╤═════════════╤═══════════════╕
│ Locator                   │ Name                         │ Shape              │ Min Shape   │ Max Shape   │ Dtype         │
╞═══════════════════════════╪══════════════════════════════╪════════════════════╪═════════════╪═════════════╪═══════════════╡
│ ['inputs'].input_ids      │ kwargs_inputs.input_ids      │ ['batch0', 'dim1'] │ [1, 10]     │ [4, 20]     │ torch.int64   │
├───────────────────────────┼──────────────────────────────┼────────────────────┼─────────────┼─────────────┼───────────────┤
│ ['inputs'].attention_mask │ kwargs_inputs.attention_mask │ ['batch0', 'dim1'] │ [1, 10]     │ [4, 20]     │ torch.float32 │
├───────────────────────────┼──────────────────────────────┼────────────────────┼─────────────┼─────────────┼───────────────┤
│ ['inputs'].position_ids   │ kwargs_inputs.position_ids   │ ['batch0', 'dim1'] │ [1, 10]     │ [4, 20]     │ torch.int64   │
╘═══════════════════════════╧══════════════════════════════╧════════════════════╧═════════════╧═════════════╧═══════════════╛)"));

  const Arguments scaled = make_batch(metadata, {{}, model_inputs(2, 12)}, 8);
  for (const char* name : {"input_ids", "attention_mask", "position_ids"}) {
    EXPECT_EQ(sizes(scaled.named[0].second[name]), "[8, 12]");
  }
}

}  // namespace
}  // namespace graphtune

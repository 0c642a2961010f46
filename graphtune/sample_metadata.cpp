#include "graphtune/sample_metadata.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graphtune/error.h"

namespace graphtune {
namespace {

/// Canonical index of each tensor of the call.
std::vector<std::size_t> canonical_indices(const CallTree& tree) {
  std::vector<std::size_t> indices(tree.tensors().size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    indices[tree.tensor_at(i)] = i;
  }
  return indices;
}

std::shared_ptr<const std::vector<std::uint32_t>> find_offsets(const CallTree& tree) {
  auto offsets = std::make_shared<std::vector<std::uint32_t>>();
  offsets->reserve(tree.tensors().size() + 1);
  offsets->push_back(0);
  for (std::size_t i = 0; i < tree.tensors().size(); ++i) {
    offsets->push_back(offsets->back() +
                       static_cast<std::uint32_t>(tree.tensors()[tree.tensor_at(i)].rank));
  }
  return offsets;
}

std::int64_t known_batch_size(std::optional<std::int64_t> batch_size) {
  if (batch_size) {
    check_batch_size(*batch_size);
  }
  return batch_size.value_or(0);
}

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

/// The number that begins at `position`, which moves past it; leading zeros are skipped.
std::string_view read_digits(std::string_view text, std::size_t& position) noexcept {
  while (position < text.size() && text[position] == '0') {
    ++position;
  }
  const std::size_t start = position;
  while (position < text.size() && is_digit(text[position])) {
    ++position;
  }
  return text.substr(start, position - start);
}

/// Text by text, but numbers by value: args_2 stands before args_10.
bool is_before(std::string_view a, std::string_view b) noexcept {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const std::string_view x = read_digits(a, i);
      const std::string_view y = read_digits(b, j);
      if (x != y) {
        return x.size() != y.size() ? x.size() < y.size() : x < y;
      }
    } else if (a[i] != b[j]) {
      return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
    } else {
      ++i;
      ++j;
    }
  }
  const bool a_ends = i == a.size();
  const bool b_ends = j == b.size();
  return a_ends == b_ends ? a < b : a_ends;
}

}  // namespace

SampleMetadata::SampleMetadata(const CallTree& tree, bool strict,
                               std::optional<std::int64_t> batch_size)
    : tree_(tree),
      key_(tree, strict),
      strict_(strict),
      axis_offsets_(find_offsets(tree)),
      learner_(axis_offsets_) {
  observe(tree, batch_size);
  tree_.detach();
}

SampleMetadata::SampleMetadata(CallTree detached, bool strict, ShapeLearner learner)
    : tree_(std::move(detached)),
      key_(tree_, strict),
      strict_(strict),
      axis_offsets_(find_offsets(tree_)),
      learner_(std::move(learner)) {
  learner_.set_tensors(axis_offsets_);
  tree_.detach();
}

std::vector<std::pair<Locator, TensorSpec>> SampleMetadata::tensor_data() const {
  std::vector<Locator> locators = tree_.tensor_locators();
  std::vector<TensorSpec> specs = tensor_specs();
  std::vector<std::pair<Locator, TensorSpec>> data;
  data.reserve(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    data.emplace_back(std::move(locators[i]), std::move(specs[i]));
  }
  return data;
}

std::vector<TensorSpec> SampleMetadata::tensor_specs() const {
  const std::vector<std::uint32_t>& offsets = axis_offsets();
  const std::vector<std::size_t> canonical = canonical_indices(tree_);
  std::vector<std::string> names = tree_.leaf_names().tensors;
  std::vector<TensorSpec> specs;
  specs.reserve(tensor_count());
  for (std::size_t i = 0; i < tensor_count(); ++i) {
    const TensorView& tensor = tree_.tensors()[i];
    const std::uint32_t first = offsets[canonical[i]];
    specs.emplace_back(std::move(names[i]), tensor.dtype, tensor.device, tensor.layout,
                       learner_.project(first, static_cast<std::size_t>(tensor.rank)));
  }
  return specs;
}

std::vector<SampleMetadata::OtherRow> SampleMetadata::other_rows() const {
  std::vector<OtherRow> rows;
  if (!strict_ || (tree_.constants().empty() && tree_.opaques().empty())) {
    return rows;
  }
  CallTree::LeafNames names = tree_.leaf_names();
  std::vector<Locator> locators = tree_.constant_locators();
  for (std::size_t i = 0; i < locators.size(); ++i) {
    rows.push_back({std::move(locators[i]), std::move(names.constants[i]), tree_.constants()[i]});
  }
  locators = tree_.opaque_locators();
  for (std::size_t i = 0; i < locators.size(); ++i) {
    const std::string& type = *tree_.opaques()[i];
    rows.push_back(
        {std::move(locators[i]), std::move(names.opaques[i]), Constant::other(type, type)});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const OtherRow& a, const OtherRow& b) { return is_before(a.name, b.name); });
  return rows;
}

std::vector<std::pair<Locator, Constant>> SampleMetadata::other_data() const {
  std::vector<std::pair<Locator, Constant>> data;
  for (OtherRow& row : other_rows()) {
    data.emplace_back(std::move(row.locator), std::move(row.value));
  }
  return data;
}

std::vector<Locator> SampleMetadata::opaque_data() const { return tree_.opaque_locators(); }

void SampleMetadata::update_shapes_seen(const SampleMetadata& other) {
  if (!(*this == other)) {
    throw ValueError(fmt::format("the samples are of different execution graphs: {}",
                                 describe_difference(*this, other)));
  }
  learner_.merge(other.learner_);
}

bool SampleMetadata::observe(const CallTree& tree, std::optional<std::int64_t> batch_size) {
  thread_local std::vector<std::int64_t> sizes;  // keeps its memory: calls are recorded one by one
  const std::int64_t known = known_batch_size(batch_size);
  collect_sizes(tree, sizes);
  return learner_.observe(known, sizes);
}

std::vector<SampleMetadata::AxisReport> SampleMetadata::explain() const {
  const std::vector<Locator> locators = tree_.tensor_locators();
  const std::vector<std::string> names = tree_.leaf_names().tensors;
  const std::vector<std::size_t> canonical = canonical_indices(tree_);
  std::vector<AxisReport> reports;
  for (std::size_t i = 0; i < tensor_count(); ++i) {
    const std::uint32_t first = axis_offsets()[canonical[i]];
    for (std::size_t axis = 0; first + axis < axis_offsets()[canonical[i] + 1]; ++axis) {
      reports.push_back({locators[i], names[i], axis, learner_.axes()[first + axis],
                         learner_.explain(first + axis)});
    }
  }
  return reports;
}

void collect_sizes(const CallTree& tree, std::vector<std::int64_t>& sizes) {
  sizes.clear();
  for (std::size_t i = 0; i < tree.tensors().size(); ++i) {
    const TensorView& tensor = tree.tensors()[tree.tensor_at(i)];
    const std::span<const std::int64_t> shape = tensor.shape();
    if (shape.size() != static_cast<std::size_t>(tensor.rank)) {
      throw ValueError(
          "the sizes of the tensors were asked for, but the call tree is detached from its "
          "tensors");
    }
    sizes.insert(sizes.end(), shape.begin(), shape.end());
  }
}

}  // namespace graphtune

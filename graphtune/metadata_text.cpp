// What SampleMetadata prints.
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graphtune/sample_metadata.h"
#include "graphtune/text_table.h"
#include "graphtune/text_width.h"
#include "graphtune/utf8.h"

namespace graphtune {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string join_names(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  shown.reserve(names.size());
  for (const std::string& name : names) {
    shown.push_back(shorten_middle(name));
  }
  return escape_controls(fmt::format("{}", fmt::join(shown, ", ")));
}

std::string section(std::string_view title, const std::vector<std::string>& header,
                    const Rows& rows, InfoLevel level) {
  const TableStyle style = level == InfoLevel::Full ? TableStyle::Grid : TableStyle::Simple;
  return fmt::format("{}:\n{}", title, format_table(header, rows, style));
}

}  // namespace

std::string SampleMetadata::describe(InfoLevel level) const {
  std::string text = describe_tensors(level);
  const std::string others = describe_others(level);
  return others.empty() ? text : text + '\n' + others;
}

std::string SampleMetadata::describe_tensors(InfoLevel level) const {
  if (tensor_count() == 0) {
    return "Tensors: none";
  }
  std::vector<std::string> names = tree_.leaf_names().tensors;
  if (level == InfoLevel::Short) {
    return "Tensors: " + join_names(names);
  }
  const std::vector<Locator> locators = tree_.tensor_locators();
  const std::vector<AxisFacts>& axes = learner_.axes();
  Rows rows(tensor_count());
  for (std::size_t i = 0; i < tensor_count(); ++i) {
    const std::size_t index = tree_.tensor_at(i);
    const TensorView& tensor = tree_.tensors()[index];
    const std::span<const AxisFacts> own =
        std::span(axes).subspan(axis_offsets()[i], static_cast<std::size_t>(tensor.rank));
    std::vector<std::string>& row = rows[index];
    row.reserve(6);
    row.push_back(locators[index].shown());
    row.push_back(shorten_middle(names[index]));
    row.push_back(shape_to_string(shape_of(own)));
    if (level == InfoLevel::Full) {
      std::vector<std::int64_t> min;
      std::vector<std::int64_t> max;
      for (const AxisFacts& axis : own) {
        min.push_back(axis.min);
        max.push_back(axis.max);
      }
      row.push_back(shape_to_string(min));
      row.push_back(shape_to_string(max));
      row.push_back(fmt::format("torch.{}", to_string(tensor.dtype)));
    }
  }
  std::vector<std::string> header{"Locator", "Name", "Shape"};
  if (level == InfoLevel::Full) {
    header.insert(header.end(), {"Min Shape", "Max Shape", "Dtype"});
  }
  return section("Tensors", header, rows, level);
}

std::string SampleMetadata::describe_others(InfoLevel level) const {
  const std::vector<OtherRow> others = other_rows();
  if (others.empty()) {
    return {};
  }
  if (level == InfoLevel::Short) {
    std::vector<std::string> names;
    names.reserve(others.size());
    for (const OtherRow& other : others) {
      names.push_back(other.name);
    }
    return "Other: " + join_names(names);
  }
  Rows rows;
  rows.reserve(others.size());
  for (const OtherRow& other : others) {
    rows.push_back({other.locator.shown(), shorten_middle(other.name), other.value.display()});
  }
  return section("Other", {"Locator", "Name", "Value"}, rows, level);
}

}  // namespace graphtune

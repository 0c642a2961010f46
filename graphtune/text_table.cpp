#include "graphtune/text_table.h"

#include <algorithm>
#include <deque>
#include <string_view>

#include <fmt/format.h>

#include "graphtune/error.h"
#include "graphtune/text_width.h"

namespace graphtune {
namespace {

/// A cell as it is printed, and the columns it takes.
struct Cell {
  std::string_view text;
  std::size_t width = 0;
};

/// All cells, row after row, the head first; and the columns' widths.
struct Layout {
  std::size_t column_count = 0;
  std::vector<Cell> cells;
  std::vector<std::size_t> widths;
  std::deque<std::string> escaped;  // texts that can't be printed as they were given

  [[nodiscard]] std::size_t row_count() const noexcept {
    return column_count == 0 ? 0 : cells.size() / column_count;
  }
  [[nodiscard]] const Cell& at(std::size_t row, std::size_t column) const {
    return cells[row * column_count + column];
  }
};

Cell make_cell(const std::string& text, std::deque<std::string>& escaped) {
  if (is_printable_ascii(text)) {
    return {text, text.size()};
  }
  const std::string& printable = escaped.emplace_back(escape_controls(text));
  return {printable, text_width(printable)};
}

Layout lay_out(std::span<const std::string> header,
               std::span<const std::vector<std::string>> rows) {
  // A heading is followed by at least this much room, so that it stands clear of the next one.
  constexpr std::size_t kHeadPadding = 2;
  Layout layout{header.size(), {}, std::vector<std::size_t>(header.size()), {}};
  layout.cells.reserve((rows.size() + 1) * header.size());
  for (std::size_t column = 0; column < header.size(); ++column) {
    layout.cells.push_back(make_cell(header[column], layout.escaped));
    layout.widths[column] = layout.cells.back().width + kHeadPadding;
  }
  for (const std::vector<std::string>& row : rows) {
    if (row.size() > header.size()) {
      throw ValueError(fmt::format("a table of {} columns can't hold a row of {} cells",
                                   header.size(), row.size()));
    }
    for (std::size_t column = 0; column < header.size(); ++column) {
      layout.cells.push_back(column < row.size() ? make_cell(row[column], layout.escaped) : Cell{});
      layout.widths[column] = std::max(layout.widths[column], layout.cells.back().width);
    }
  }
  return layout;
}

void append_repeated(std::string& out, std::string_view text, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    out += text;
  }
}

std::string format_simple(const Layout& layout) {
  constexpr std::string_view kGap = "  ";
  std::string out;
  for (std::size_t row = 0; row < layout.row_count(); ++row) {
    std::string line;
    for (std::size_t column = 0; column < layout.column_count; ++column) {
      const Cell& cell = layout.at(row, column);
      line += cell.text;
      line.append(layout.widths[column] - cell.width, ' ');
      line += kGap;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line;
    if (row == 0) {
      for (std::size_t column = 0; column < layout.column_count; ++column) {
        out += column == 0 ? std::string_view("\n") : kGap;
        out.append(layout.widths[column], '-');
      }
    }
    out += row + 1 < layout.row_count() ? "\n" : "";
  }
  return out;
}

std::string make_rule(const Layout& layout, std::string_view left, std::string_view line,
                      std::string_view cross, std::string_view right) {
  std::string rule(left);
  for (std::size_t column = 0; column < layout.column_count; ++column) {
    if (column > 0) {
      rule += cross;
    }
    append_repeated(rule, line, layout.widths[column] + 2);
  }
  rule += right;
  return rule;
}

std::string format_grid(const Layout& layout) {
  const std::string rule = make_rule(layout, "├", "─", "┼", "┤\n");
  std::string out = make_rule(layout, "╒", "═", "╤", "╕\n");
  out.reserve(2 * rule.size() * (layout.row_count() + 1));
  for (std::size_t row = 0; row < layout.row_count(); ++row) {
    if (row == 1) {
      out += make_rule(layout, "╞", "═", "╪", "╡\n");
    } else if (row > 1) {
      out += rule;
    }
    for (std::size_t column = 0; column < layout.column_count; ++column) {
      const Cell& cell = layout.at(row, column);
      out += "│ ";
      out += cell.text;
      out.append(layout.widths[column] - cell.width + 1, ' ');
    }
    out += "│\n";
  }
  out += make_rule(layout, "╘", "═", "╧", "╛");
  return out;
}

}  // namespace

std::string format_table(std::span<const std::string> header,
                         std::span<const std::vector<std::string>> rows, TableStyle style) {
  const Layout layout = lay_out(header, rows);
  return style == TableStyle::Simple ? format_simple(layout) : format_grid(layout);
}

}  // namespace graphtune

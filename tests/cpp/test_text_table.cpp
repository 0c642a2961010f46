#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graphtune/error.h"
#include "graphtune/text_table.h"
#include "graphtune/text_width.h"

namespace graphtune {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string table(const std::vector<std::string>& header, const Rows& rows, TableStyle style) {
  return format_table(header, rows, style);
}

TEST(TextTable, SimpleUnderlinesTheHead) {
  EXPECT_EQ(table({"Locator", "Name"}, {{"[0]", "args_0"}, {"['a long key']", "kwargs_a"}},
                  TableStyle::Simple),
            "Locator         Name\n"
            "--------------  --------\n"
            "[0]             args_0\n"
            "['a long key']  kwargs_a");
}

TEST(TextTable, GridDrawsBoxes) {
  EXPECT_EQ(table({"A", "Name"}, {{"1", "x"}, {"22", "yyyyyyy"}}, TableStyle::Grid),
            "╒═════╤═════════╕\n"
            "│ A   │ Name    │\n"
            "╞═════╪═════════╡\n"
            "│ 1   │ x       │\n"
            "├─────┼─────────┤\n"
            "│ 22  │ yyyyyyy │\n"
            "╘═════╧═════════╛");
}

TEST(TextTable, WithoutRowsTheHeadRemains) {
  EXPECT_EQ(table({"A"}, {}, TableStyle::Simple), "A\n---");
  EXPECT_EQ(table({"A"}, {}, TableStyle::Grid), "╒═════╕\n│ A   │\n╘═════╛");
}

TEST(TextTable, WideCharactersCountTwoAndCombiningMarksNone) {
  EXPECT_EQ(text_width("日本"), 4U);
  EXPECT_EQ(text_width("é"), 1U);
  EXPECT_EQ(text_width("e\u0301"), 1U);
  EXPECT_EQ(text_width("😀"), 2U);
  EXPECT_EQ(text_width("\xFF"), 1U);
  EXPECT_EQ(table({"A"}, {{"日本語"}, {"abcdef"}}, TableStyle::Grid),
            "╒════════╕\n"
            "│ A      │\n"
            "╞════════╡\n"
            "│ 日本語 │\n"
            "├────────┤\n"
            "│ abcdef │\n"
            "╘════════╛");
}

TEST(TextTable, ControlCharactersAreEscaped) {
  EXPECT_EQ(escape_controls("a\nb\tc\r\x1b[31m\x7f"), "a\\nb\\tc\\r\\x1b[31m\\x7f");
  EXPECT_EQ(escape_controls("\u0085 \u2028 \u202e"), "\\x85 \\u2028 \\u202e");
  EXPECT_EQ(escape_controls("caf\u00e9 \xFF"), "caf\u00e9 \\xff");
  EXPECT_EQ(escape_controls(std::string("\0x", 2)), "\\x00x");
  EXPECT_EQ(table({"A"}, {{"two\nlines"}}, TableStyle::Simple), "A\n----------\ntwo\\nlines");
}

TEST(TextTable, MissingCellsAreEmptyAndSurplusOnesRefused) {
  EXPECT_EQ(table({"A", "B"}, {{"1"}}, TableStyle::Simple), "A    B\n---  ---\n1");
  EXPECT_THROW(table({"A"}, {{"1", "2"}}, TableStyle::Simple), ValueError);
}

}  // namespace
}  // namespace graphtune

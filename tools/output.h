#pragma once

#include <utility>

#include <fmt/format.h>

namespace graphtune::tools {

/// Sends what was printed on its way. Throws Error when it can't be written (a full disk, a closed
/// pipe): what nobody got must not look like success.
void flush_output();

/// Prints to stdout. Throws as flush_output() does.
void print_text(fmt::string_view format, fmt::format_args arguments);
template <typename... Arguments>
void print_out(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  print_text(format, fmt::make_format_args(arguments...));
}

}  // namespace graphtune::tools

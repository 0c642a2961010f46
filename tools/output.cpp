#include "output.h"

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include "graphtune/error.h"

namespace graphtune::tools {
namespace {

[[noreturn]] void fail(int reason) {
  throw Error(
      fmt::format("standard output can't be written: {}", std::generic_category().message(reason)));
}

}  // namespace

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fail(errno != 0 ? errno : EIO);
  }
}

void print_text(fmt::string_view format, fmt::format_args arguments) {
  const std::string text = fmt::vformat(format, arguments);
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    fail(errno != 0 ? errno : EIO);
  }
}

}  // namespace graphtune::tools

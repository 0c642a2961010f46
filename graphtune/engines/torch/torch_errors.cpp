#include "graphtune/engines/torch/torch_errors.h"

#include <exception>

#include <c10/util/Exception.h>

namespace graphtune {
namespace {

std::string first_line(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) {
    return "no reason given";
  }
  const std::size_t end = text.find_first_of("\r\n", begin);
  return std::string(text.substr(begin, end == std::string_view::npos ? end : end - begin));
}

}  // namespace

std::string current_reason() {
  try {
    throw;
  } catch (const c10::Error& error) {
    return first_line(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return first_line(error.what());
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace graphtune

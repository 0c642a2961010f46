#pragma once

#include <fstream>
#include <iterator>
#include <string>

namespace graphtune::test {

/// Names of all files mapped into this process.
inline std::string loaded_libraries() {
  std::ifstream stream("/proc/self/maps");
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

}  // namespace graphtune::test

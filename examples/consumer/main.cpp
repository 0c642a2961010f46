// Shows that an installed graphtune can be used from C++: its version, the name of an argument, and
// the engines that this machine can run. Fails if an engine named on the command line is not
// usable.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "graphtune/engines/registry.h"
#include "graphtune/locator.h"
#include "graphtune/version.h"

int main(int argc, char** argv) {
  std::cout << "graphtune " << GRAPHTUNE_VERSION << '\n';

  const graphtune::Locator locator(
      graphtune::Root::Kwargs,
      {graphtune::Step::of_key(graphtune::Constant::string("input_ids")), graphtune::Step::at(0)});
  std::cout << "locator " << locator.to_string() << " is called " << locator.name() << '\n';

  std::vector<std::string> wanted(argv + 1, argv + argc);
  for (const graphtune::BackendInfo& backend : graphtune::list_backends()) {
    const bool usable = backend.unavailable_reason.empty();
    std::cout << "engine " << backend.name << ": "
              << (usable ? backend.version : backend.unavailable_reason) << '\n';
    if (usable) {
      wanted.erase(std::remove(wanted.begin(), wanted.end(), backend.name), wanted.end());
    }
  }
  for (const std::string& name : wanted) {
    std::cerr << "engine " << name << " is not usable\n";
  }
  return wanted.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}

#include <iostream>
#include <vector>

#include <graphtune/error.h>
#include <graphtune/module.h>

int main(int argc, char** argv) try {
  const auto module = graphtune::Module::load(argc > 1 ? argv[1] : "classifier.bundle");
  const std::vector<float> features(3 * 16, 0.5F);
  const auto input = graphtune::Tensor::from<float>(features, {3, 16});

  const graphtune::Value result = module({input});
  const graphtune::Tensor& scores = result.tensor();
  std::cout << scores.sizes()[0] << " x " << scores.sizes()[1] << ", first "
            << scores.data_as<float>()[0] << '\n';
} catch (const graphtune::Error& error) {
  std::cerr << "classify: " << error.what() << '\n';
  return 1;
}

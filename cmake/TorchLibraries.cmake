# torch's libraries as imported targets: graphtune::torch_cpu (all that a C++ engine needs) and graphtune::torch_python.
# torch's own find_package(Torch) is not used: it sets global flags, asks for the CUDA toolkit wherever torch was built
# with CUDA, and puts all of its libraries on every target.
include_guard(GLOBAL)
include(CheckCXXSourceCompiles)

set(GRAPHTUNE_TORCH_ROOT "" CACHE PATH "Folder of torch (with include/ and lib/); empty: that of the Python interpreter")
set(_torch_root "${GRAPHTUNE_TORCH_ROOT}")
if(NOT _torch_root)
  graphtune_find_python_package(torch _torch_root)
endif()

set(GRAPHTUNE_TORCH_FOUND FALSE)
if(EXISTS "${_torch_root}/lib/libtorch_cpu.so" AND EXISTS "${_torch_root}/include/torch/torch.h"
   OR EXISTS "${_torch_root}/include/torch/csrc/api/include/torch/torch.h")
  set(_torch_includes "${_torch_root}/include" "${_torch_root}/include/torch/csrc/api/include")

  add_library(graphtune::c10 SHARED IMPORTED)
  set_target_properties(graphtune::c10 PROPERTIES IMPORTED_LOCATION "${_torch_root}/lib/libc10.so"
                                                  INTERFACE_INCLUDE_DIRECTORIES "${_torch_includes}")
  add_library(graphtune::torch_cpu SHARED IMPORTED)
  set_target_properties(graphtune::torch_cpu PROPERTIES IMPORTED_LOCATION "${_torch_root}/lib/libtorch_cpu.so"
                                                        INTERFACE_LINK_LIBRARIES graphtune::c10)
  if(EXISTS "${_torch_root}/lib/libtorch_python.so")
    add_library(graphtune::torch_python SHARED IMPORTED)
    set_target_properties(
      graphtune::torch_python PROPERTIES IMPORTED_LOCATION "${_torch_root}/lib/libtorch_python.so"
                                         INTERFACE_LINK_LIBRARIES graphtune::torch_cpu)
  endif()

  # std::string is part of torch's interface: a torch built with the other _GLIBCXX_USE_CXX11_ABI does not link.
  set(CMAKE_REQUIRED_LIBRARIES graphtune::c10)
  check_cxx_source_compiles("#include <string>
    #include <c10/core/Device.h>
    int main(int argc, char** argv) { return c10::Device(std::string(argv[argc - 1])).is_cpu() ? 0 : 1; }"
                            GRAPHTUNE_TORCH_ABI_AGREES)
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(NOT GRAPHTUNE_TORCH_ABI_AGREES)
    message(FATAL_ERROR "${_torch_root} can't be linked with ${CMAKE_CXX_COMPILER}: most likely it was built with "
                        "another _GLIBCXX_USE_CXX11_ABI. Use a matching torch, or configure without it: "
                        "-DGRAPHTUNE_ENGINES=OFF -DGRAPHTUNE_PYTHON=OFF")
  endif()
  set(GRAPHTUNE_TORCH_FOUND TRUE)
  message(STATUS "torch: ${_torch_root}")
endif()

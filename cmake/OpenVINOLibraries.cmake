# openvino::runtime, from -DOpenVINO_DIR, the interpreter's openvino wheel or the system.
include_guard(GLOBAL)
include(CheckCXXSourceCompiles)

if(NOT OpenVINO_DIR)
  graphtune_find_python_package(openvino _openvino_root)
  if(EXISTS "${_openvino_root}/cmake/OpenVINOConfig.cmake")
    set(OpenVINO_DIR "${_openvino_root}/cmake" CACHE PATH "Folder of OpenVINOConfig.cmake" FORCE)
  endif()
endif()

# Its package file calls add_definitions(), which would reach all targets of the project.
get_directory_property(_definitions COMPILE_DEFINITIONS)
find_package(OpenVINO QUIET COMPONENTS Runtime)
set_directory_properties(PROPERTIES COMPILE_DEFINITIONS "${_definitions}")

if(OpenVINO_FOUND)
  set(CMAKE_REQUIRED_LIBRARIES openvino::runtime)
  check_cxx_source_compiles("#include <string>
    #include <openvino/core/partial_shape.hpp>
    int main(int argc, char** argv) { return ov::PartialShape(std::string(argv[argc - 1])).is_static() ? 0 : 1; }"
                            GRAPHTUNE_OPENVINO_ABI_AGREES)
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(NOT GRAPHTUNE_OPENVINO_ABI_AGREES)
    message(FATAL_ERROR "${OpenVINO_DIR} can't be linked with ${CMAKE_CXX_COMPILER}: most likely it was built with "
                        "another _GLIBCXX_USE_CXX11_ABI. Use a matching OpenVINO, or -DGRAPHTUNE_ENGINES=OFF")
  endif()
  message(STATUS "OpenVINO: ${OpenVINO_DIR} (${OpenVINO_VERSION})")
endif()

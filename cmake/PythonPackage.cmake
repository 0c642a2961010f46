# The package graphtune as it can be imported from the build tree: build/<preset>/python/graphtune holds links to the
# sources in python/graphtune, and the extension and its stub beside them. Edits are live, the source tree stays clean,
# and several build folders can be used side by side (PYTHONPATH=build/<preset>/python).
include(TorchLibraries)
if(NOT TARGET graphtune::torch_python)
  message(FATAL_ERROR "The Python extension needs torch with its headers in ${Python_EXECUTABLE}: install it there "
                      "(scripts/setup.sh does), or configure with -DGRAPHTUNE_PYTHON=OFF")
endif()
execute_process(COMMAND "${Python_EXECUTABLE}" -P -m nanobind --cmake_dir OUTPUT_VARIABLE _nanobind_dir
                OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE _failed ERROR_QUIET)
if(_failed)
  message(FATAL_ERROR "The Python extension needs nanobind in ${Python_EXECUTABLE}: install it there "
                      "(scripts/setup.sh does), or configure with -DGRAPHTUNE_PYTHON=OFF")
endif()
find_package(nanobind CONFIG REQUIRED PATHS "${_nanobind_dir}" NO_DEFAULT_PATH)

set(GRAPHTUNE_PYTHON_DIR "${PROJECT_BINARY_DIR}/python")
file(GLOB_RECURSE _modules RELATIVE "${PROJECT_SOURCE_DIR}/python" CONFIGURE_DEPENDS
     python/graphtune/*.py python/graphtune/*.pyi python/graphtune/py.typed)
file(GLOB_RECURSE _links "${GRAPHTUNE_PYTHON_DIR}/graphtune/*.py")
foreach(_link IN LISTS _links)
  if(NOT EXISTS "${_link}") # its source is gone
    file(REMOVE "${_link}")
  endif()
endforeach()
foreach(_module IN LISTS _modules)
  get_filename_component(_folder "${GRAPHTUNE_PYTHON_DIR}/${_module}" DIRECTORY)
  file(MAKE_DIRECTORY "${_folder}")
  file(CREATE_LINK "${PROJECT_SOURCE_DIR}/python/${_module}" "${GRAPHTUNE_PYTHON_DIR}/${_module}" SYMBOLIC)
endforeach()

file(GLOB _sources CONFIGURE_DEPENDS python/bindings/*.cpp)
if(_sources)
  nanobind_add_module(_core NB_STATIC NOMINSIZE NB_SUPPRESS_WARNINGS ${_sources}
                      graphtune/engines/torch/openmp_threads.cpp)
  target_include_directories(_core PRIVATE python)
  # torch's headers bring an fmt of their own, which comes first: no library of that version is linked.
  target_compile_definitions(_core PRIVATE FMT_HEADER_ONLY)
  target_link_libraries(_core PRIVATE graphtune graphtune_settings graphtune_libraries graphtune::torch_python)
  set_target_properties(_core PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${GRAPHTUNE_PYTHON_DIR}/graphtune"
                                         INSTALL_RPATH "$ORIGIN;$ORIGIN/../torch/lib")
  nanobind_add_stub(
    _core_stub
    MODULE _core
    OUTPUT "${GRAPHTUNE_PYTHON_DIR}/graphtune/_core.pyi"
    PYTHON_PATH "${GRAPHTUNE_PYTHON_DIR}/graphtune"
    PATTERN_FILE "${PROJECT_SOURCE_DIR}/python/bindings/stub_patterns.txt"
    DEPENDS _core)
endif()

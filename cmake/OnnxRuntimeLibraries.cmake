# graphtune::onnxruntime: the headers, from -DGRAPHTUNE_ONNXRUNTIME_INCLUDE, beside the interpreter, from .venv, where
# scripts/setup.sh puts them (pip builds with an interpreter of its own), or the system. The library itself is opened while
# the engine runs.
include_guard(GLOBAL)

get_filename_component(_prefix "${Python_EXECUTABLE}" DIRECTORY)
find_path(GRAPHTUNE_ONNXRUNTIME_INCLUDE onnxruntime_cxx_api.h HINTS "${_prefix}/../include" "${PROJECT_SOURCE_DIR}/.venv/include"
          PATH_SUFFIXES onnxruntime DOC "Folder of onnxruntime_cxx_api.h")
if(GRAPHTUNE_ONNXRUNTIME_INCLUDE)
  add_library(graphtune_onnxruntime INTERFACE)
  add_library(graphtune::onnxruntime ALIAS graphtune_onnxruntime)
  target_include_directories(graphtune_onnxruntime SYSTEM INTERFACE "${GRAPHTUNE_ONNXRUNTIME_INCLUDE}")
  target_link_libraries(graphtune_onnxruntime INTERFACE ${CMAKE_DL_LIBS})
  graphtune_find_python_package(onnxruntime _onnxruntime_root)
  if(_onnxruntime_root AND NOT DEFINED SKBUILD) # a wheel is used elsewhere
    target_compile_definitions(graphtune_onnxruntime
                               INTERFACE GRAPHTUNE_ONNXRUNTIME_FOLDER="${_onnxruntime_root}/capi")
  endif()
  message(STATUS "ONNX Runtime: headers in ${GRAPHTUNE_ONNXRUNTIME_INCLUDE}")
endif()

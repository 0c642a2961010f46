# Each engine is a module of its own, loaded on first use: a process pays only for the runtimes that its bundle needs.
include(TorchLibraries)
include(OpenVINOLibraries)
include(OnnxRuntimeLibraries)

set(GRAPHTUNE_ENGINE_TARGETS "")

# graphtune_add_engine(NAME FOLDER RUNTIME RPATH): RPATH is where the runtime lies in site-packages beside the package.
function(graphtune_add_engine name folder runtime rpath)
  file(GLOB _sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/graphtune/engines/${folder}/*.cpp)
  if(NOT _sources)
    return()
  endif()
  set(_target graphtune_engine_${name})
  add_library(${_target} MODULE ${_sources})
  target_link_libraries(${_target} PRIVATE graphtune graphtune_settings graphtune_libraries ${runtime})
  target_link_options(${_target} PRIVATE ${GRAPHTUNE_NO_UNDEFINED})
  if(DEFINED SKBUILD)
    set_target_properties(${_target} PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/../${rpath}")
  elseif(NOT rpath) # a runtime that the engine opens by itself
    set_target_properties(${_target} PROPERTIES INSTALL_RPATH "$ORIGIN/..")
  else()
    # An installed engine looks for the library above it, and for the runtime where the build found it.
    set_target_properties(${_target} PROPERTIES INSTALL_RPATH "$ORIGIN/..;$<TARGET_FILE_DIR:${runtime}>")
  endif()
  set(GRAPHTUNE_ENGINE_TARGETS ${GRAPHTUNE_ENGINE_TARGETS} ${_target} PARENT_SCOPE)
endfunction()

if(GRAPHTUNE_TORCH_FOUND)
  graphtune_add_engine(aoti torch graphtune::torch_cpu torch/lib)
else()
  message(STATUS "Engine aoti is left out: ${Python_EXECUTABLE} has no torch, and GRAPHTUNE_TORCH_ROOT is not set")
endif()
if(OpenVINO_FOUND)
  graphtune_add_engine(openvino openvino openvino::runtime openvino/libs)
else()
  message(STATUS "Engine openvino is left out: ${Python_EXECUTABLE} has no openvino, and OpenVINO_DIR is not set")
endif()
if(TARGET graphtune::onnxruntime)
  graphtune_add_engine(onnxruntime onnxruntime graphtune::onnxruntime "")
else()
  message(STATUS "Engine onnxruntime is left out: onnxruntime_cxx_api.h was not found (libonnxruntime-dev has it), and "
                 "GRAPHTUNE_ONNXRUNTIME_INCLUDE is not set")
endif()

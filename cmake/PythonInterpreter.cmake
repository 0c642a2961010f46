# The interpreter whose packages (torch, openvino, nanobind) are built against: -DPython_EXECUTABLE, else the .venv that
# scripts/setup.sh makes, else the first python3 on PATH.
if(NOT DEFINED Python_EXECUTABLE AND EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  set(Python_EXECUTABLE "${PROJECT_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH "Python whose packages are used")
endif()
if(GRAPHTUNE_PYTHON)
  find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
else()
  find_package(Python 3.11 COMPONENTS Interpreter)
endif()

# The folder of an installed Python package, empty if there is none. The package is not imported: torch takes seconds.
function(graphtune_find_python_package name result)
  set(${result} "" PARENT_SCOPE)
  if(NOT Python_Interpreter_FOUND)
    return()
  endif()
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -P -c # -P: not from the current folder
            "import importlib.util as u; s = u.find_spec('${name}'); print(list(s.submodule_search_locations)[0] if s else '')"
    OUTPUT_VARIABLE _folder OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(${result} "${_folder}" PARENT_SCOPE)
endfunction()

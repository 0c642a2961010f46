# Run as a test: installs the build into a folder of its own, then configures, builds and runs examples/consumer with it.
# cmake -DBUILD=... -DSOURCE=... -DCOMPILER=... -DGENERATOR=... -DENGINES="aoti openvino" -P run_consumer.cmake
set(_work "${BUILD}/consumer_test")
file(REMOVE_RECURSE "${_work}")

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${_work}/prefix")
# Found through the prefix alone, as a user would; its folder is moved first, since an installation must not depend on
# where it was made.
file(RENAME "${_work}/prefix" "${_work}/moved")
run("${CMAKE_COMMAND}" -S "${SOURCE}/examples/consumer" -B "${_work}/build" -G "${GENERATOR}"
    "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_PREFIX_PATH=${_work}/moved" -DCMAKE_BUILD_TYPE=Release)
run("${CMAKE_COMMAND}" --build "${_work}/build")
separate_arguments(_engines UNIX_COMMAND "${ENGINES}")
run("${_work}/build/consumer" ${_engines})
run("${_work}/moved/bin/graphtune" --help)

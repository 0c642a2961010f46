find_package(GTest REQUIRED)
include(GoogleTest)

# Tests are compiled once for every time they run, and all that takes time is in the libraries that they test: -O1
# spares a third of their compile time.
set(_test_options $<$<CONFIG:Release>:-O1>)

# The core's tests link neither torch nor Python.
file(GLOB _sources CONFIGURE_DEPENDS tests/cpp/*.cpp)
if(_sources)
  add_executable(graphtune_tests ${_sources})
  target_include_directories(graphtune_tests PRIVATE tests/cpp)
  target_compile_options(graphtune_tests PRIVATE ${_test_options})
  target_link_libraries(graphtune_tests PRIVATE graphtune graphtune_settings graphtune_libraries GTest::gmock GTest::gtest_main)
  # The tests start the command line, and load an engine library of their own.
  if(TARGET graphtune_cli)
    add_library(graphtune_engine_fake MODULE tests/cpp/fake_engine/fake_engine.cpp)
    target_include_directories(graphtune_engine_fake PRIVATE tests/cpp)
    target_link_libraries(graphtune_engine_fake PRIVATE graphtune graphtune_settings)
    set_target_properties(graphtune_engine_fake PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test_engines")
    add_dependencies(graphtune_tests graphtune_cli graphtune_engine_fake)
    target_compile_definitions(graphtune_tests PRIVATE GRAPHTUNE_TOOL="$<TARGET_FILE:graphtune_cli>"
                                                       GRAPHTUNE_TEST_ENGINES="${PROJECT_BINARY_DIR}/test_engines")
  endif()
  gtest_discover_tests(graphtune_tests DISCOVERY_TIMEOUT 60)
endif()

file(GLOB _sources CONFIGURE_DEPENDS tests/cpp/engines/*.cpp)
if(_sources AND GRAPHTUNE_ENGINE_TARGETS)
  add_executable(graphtune_engine_tests ${_sources})
  target_include_directories(graphtune_engine_tests PRIVATE tests/cpp)
  target_compile_options(graphtune_engine_tests PRIVATE ${_test_options})
  target_link_libraries(graphtune_engine_tests PRIVATE graphtune graphtune_settings graphtune_libraries GTest::gmock
                                                       GTest::gtest_main)
  # Engines are loaded while the tests run, so the linker does not know of them.
  add_dependencies(graphtune_engine_tests ${GRAPHTUNE_ENGINE_TARGETS})
  gtest_discover_tests(graphtune_engine_tests DISCOVERY_TIMEOUT 60)
endif()

if(NOT GRAPHTUNE_SANITIZE)
  list(TRANSFORM GRAPHTUNE_ENGINE_TARGETS REPLACE "graphtune_engine_" "" OUTPUT_VARIABLE _engines)
  list(JOIN _engines " " _engines)
  add_test(NAME installed_package_serves_a_consumer
           COMMAND "${CMAKE_COMMAND}" -DBUILD=${PROJECT_BINARY_DIR} -DSOURCE=${PROJECT_SOURCE_DIR}
                   -DCOMPILER=${CMAKE_CXX_COMPILER} -DGENERATOR=${CMAKE_GENERATOR} "-DENGINES=${_engines}" -P
                   "${PROJECT_SOURCE_DIR}/cmake/run_consumer.cmake")
  set_tests_properties(installed_package_serves_a_consumer PROPERTIES LABELS install TIMEOUT 600)
endif()

# Each tests/fuzz/fuzz_*.cpp becomes an executable; the sanitizers are set for all targets in CompilerSettings.
file(GLOB _sources CONFIGURE_DEPENDS tests/fuzz/fuzz_*.cpp)
foreach(_source IN LISTS _sources)
  get_filename_component(_target "${_source}" NAME_WE)
  add_executable(${_target} "${_source}")
  target_link_libraries(${_target} PRIVATE graphtune graphtune_settings graphtune_libraries)
  target_link_options(${_target} PRIVATE -fsanitize=fuzzer,address,undefined)
endforeach()

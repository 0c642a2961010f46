find_package(benchmark REQUIRED)

add_library(graphtune_workloads STATIC benchmarks/cpp/workloads.cpp)
target_include_directories(graphtune_workloads PUBLIC benchmarks/cpp)
target_link_libraries(graphtune_workloads PUBLIC graphtune graphtune_settings graphtune_libraries)

file(GLOB _sources CONFIGURE_DEPENDS benchmarks/cpp/bench_*.cpp)
add_executable(graphtune_benchmarks ${_sources})
target_link_libraries(graphtune_benchmarks PRIVATE graphtune_workloads benchmark::benchmark_main)

# For callgrind: nothing of a benchmark library on the path.
add_executable(graphtune_call_path benchmarks/cpp/call_path.cpp)
target_link_libraries(graphtune_call_path PRIVATE graphtune_workloads)

# What every target of the project is compiled with. Flags live on graphtune_settings, so that nothing leaks into
# third-party code that is compiled along (nanobind).
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(GRAPHTUNE_CCACHE ccache)
  mark_as_advanced(GRAPHTUNE_CCACHE)
  if(GRAPHTUNE_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${GRAPHTUNE_CCACHE}")
  endif()
endif()

add_library(graphtune_settings INTERFACE)
target_compile_options(graphtune_settings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                                                    -Woverloaded-virtual)
# g++ 12 sees overlapping copies inside std::string that can't happen (its bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(graphtune_settings INTERFACE -Wno-restrict)
endif()
if(GRAPHTUNE_WERROR)
  target_compile_options(graphtune_settings INTERFACE -Werror)
endif()

# Narrowing is checked where we do all the arithmetic ourselves; code full of torch's and Python's macros goes without.
# g++ leaves sign conversions out of -Wconversion, clang does not: both shall say the same.
add_library(graphtune_strict_settings INTERFACE)
target_link_libraries(graphtune_strict_settings INTERFACE graphtune_settings)
target_compile_options(graphtune_strict_settings INTERFACE -Wconversion -Wno-sign-conversion)

# Sanitizers must cover the whole program: directory scope, not a target's.
set(_sanitizers "${GRAPHTUNE_SANITIZE}")
if(GRAPHTUNE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "GRAPHTUNE_FUZZ needs libFuzzer, which is part of clang: configure with the preset `fuzz` "
                        "or with -DCMAKE_CXX_COMPILER=clang++")
  endif()
  set(_sanitizers "fuzzer-no-link,address,undefined")
endif()
if(_sanitizers)
  add_compile_options(-fsanitize=${_sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all -g)
  add_link_options(-fsanitize=${_sanitizers})
endif()

# Shared libraries refuse what no library defines when they are linked, instead of when someone loads them. (Sanitizers'
# own functions are in the executable.)
set(GRAPHTUNE_NO_UNDEFINED "")
if(NOT _sanitizers)
  set(GRAPHTUNE_NO_UNDEFINED -Wl,--no-undefined)
endif()

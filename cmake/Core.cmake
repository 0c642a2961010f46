# libgraphtune: neither torch nor Python.
find_package(nlohmann_json 3.11 REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(Threads REQUIRED)

configure_file(graphtune/version.h.in "${PROJECT_BINARY_DIR}/generated/graphtune/version.h" @ONLY)

file(GLOB _sources CONFIGURE_DEPENDS graphtune/*.cpp graphtune/tune/*.cpp graphtune/engines/*.cpp)
add_library(graphtune SHARED ${_sources})
add_library(graphtune::graphtune ALIAS graphtune)
target_include_directories(graphtune PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                            $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(graphtune PUBLIC cxx_std_20)
# All private: the public headers need the standard library only. The project's other targets take JSON and formatting
# from graphtune_libraries.
add_library(graphtune_libraries INTERFACE)
target_link_libraries(graphtune_libraries INTERFACE nlohmann_json::nlohmann_json fmt::fmt)
target_link_libraries(
  graphtune PRIVATE $<BUILD_INTERFACE:graphtune_strict_settings> $<BUILD_INTERFACE:graphtune_libraries> OpenSSL::Crypto
                    Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(graphtune PRIVATE ${GRAPHTUNE_NO_UNDEFINED})
# A call inside the library needs no detour through the symbol table.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(graphtune PRIVATE -fno-semantic-interposition)
endif()
# A wheel can't hold the symbolic links that a versioned library comes with.
if(NOT DEFINED SKBUILD)
  set_target_properties(graphtune PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
endif()

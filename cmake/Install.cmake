if(DEFINED SKBUILD)
  # Everything of the wheel lies in the package's folder; the tool goes where pip puts commands.
  install(TARGETS graphtune ${GRAPHTUNE_ENGINE_TARGETS} _core LIBRARY DESTINATION graphtune)
  install(FILES "${GRAPHTUNE_PYTHON_DIR}/graphtune/_core.pyi" DESTINATION graphtune)
  if(TARGET graphtune_cli)
    set(_site_packages lib/python${Python_VERSION_MAJOR}.${Python_VERSION_MINOR})
    set_target_properties(
      graphtune_cli
      PROPERTIES INSTALL_RPATH
                 "$ORIGIN/../${_site_packages}/site-packages/graphtune;$ORIGIN/../${_site_packages}/dist-packages/graphtune")
    install(TARGETS graphtune_cli RUNTIME DESTINATION "${SKBUILD_SCRIPTS_DIR}")
  endif()
  return()
endif()

include(CMakePackageConfigHelpers)
set(_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/graphtune")

install(TARGETS graphtune EXPORT graphtune_targets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT graphtune_targets NAMESPACE graphtune:: FILE graphtuneTargets.cmake DESTINATION "${_package_dir}")
install(DIRECTORY graphtune DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h"
        PATTERN "engines/*" EXCLUDE)
install(FILES "${PROJECT_BINARY_DIR}/generated/graphtune/version.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/graphtune")
file(GLOB _engine_headers CONFIGURE_DEPENDS graphtune/engines/*.h)
install(FILES ${_engine_headers} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/graphtune/engines")
if(GRAPHTUNE_ENGINE_TARGETS)
  install(TARGETS ${GRAPHTUNE_ENGINE_TARGETS} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/graphtune")
endif()
if(TARGET graphtune_cli)
  file(RELATIVE_PATH _libraries_from_bin "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
  set_target_properties(graphtune_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${_libraries_from_bin}")
  install(TARGETS graphtune_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

configure_package_config_file(cmake/graphtuneConfig.cmake.in "${PROJECT_BINARY_DIR}/generated/graphtuneConfig.cmake"
                              INSTALL_DESTINATION "${_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/graphtuneConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/generated/graphtuneConfig.cmake"
              "${PROJECT_BINARY_DIR}/generated/graphtuneConfigVersion.cmake" DESTINATION "${_package_dir}")

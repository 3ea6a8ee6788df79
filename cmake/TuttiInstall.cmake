# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Install rules: headers, a package that find_package(tutti) finds, and files for pkg-config.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)

install(TARGETS tutti tutti_cuda EXPORT tuttiTargets FILE_SET HEADERS)
install(EXPORT tuttiTargets NAMESPACE tutti:: DESTINATION ${package_dir})
# Who installs without building gets the headers alone.
install(TARGETS tutti_compiled EXPORT tuttiCompiledTargets OPTIONAL)
install(EXPORT tuttiCompiledTargets NAMESPACE tutti:: DESTINATION ${package_dir})
if(TARGET tutti_cuda_compiled)
  install(TARGETS tutti_cuda_compiled EXPORT tuttiCudaCompiledTargets OPTIONAL)
  install(EXPORT tuttiCudaCompiledTargets NAMESPACE tutti:: DESTINATION ${package_dir})
endif()
install(TARGETS tutti_mpi EXPORT tuttiMpiTargets FILE_SET HEADERS)
install(EXPORT tuttiMpiTargets NAMESPACE tutti:: DESTINATION ${package_dir})

configure_package_config_file(cmake/tuttiConfig.cmake.in tuttiConfig.cmake INSTALL_DESTINATION ${package_dir}
  PATH_VARS CMAKE_INSTALL_LIBDIR)
# Before 1.0 a minor version may change an interface. Headers fit every machine, whatever its pointer size.
write_basic_package_version_file(tuttiConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/tuttiConfig.cmake ${PROJECT_BINARY_DIR}/tuttiConfigVersion.cmake
  DESTINATION ${package_dir})

# For pkg-config, relative to the folder of the files, so that an installation may be moved; unless the folders are absolute, as in Nix.
if(IS_ABSOLUTE ${CMAKE_INSTALL_INCLUDEDIR} OR IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
  set(pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
  set(pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
else()
  file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" up ${up})
  set(pc_prefix "\${pcfiledir}/${up}")
  set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
  set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
configure_file(cmake/tutti.pc.in tutti.pc @ONLY)
configure_file(cmake/tutti-compiled.pc.in pkgconfig/tutti-compiled.pc @ONLY)
# Like the library, it is there once that is built.
add_custom_command(TARGET tutti_compiled POST_BUILD COMMAND ${CMAKE_COMMAND} -E copy
  ${PROJECT_BINARY_DIR}/pkgconfig/tutti-compiled.pc ${PROJECT_BINARY_DIR}/tutti-compiled.pc)
install(FILES ${PROJECT_BINARY_DIR}/tutti.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PROJECT_BINARY_DIR}/tutti-compiled.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig OPTIONAL)

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Install rules: headers, and a package that find_package(tutti) finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)

install(TARGETS tutti tutti_cuda EXPORT tuttiTargets FILE_SET HEADERS)
install(EXPORT tuttiTargets NAMESPACE tutti:: DESTINATION ${package_dir})
# Who installs without building gets the headers alone.
install(TARGETS tutti_compiled EXPORT tuttiCompiledTargets OPTIONAL)
install(EXPORT tuttiCompiledTargets NAMESPACE tutti:: DESTINATION ${package_dir})
install(TARGETS tutti_mpi EXPORT tuttiMpiTargets FILE_SET HEADERS)
install(EXPORT tuttiMpiTargets NAMESPACE tutti:: DESTINATION ${package_dir})

configure_package_config_file(cmake/tuttiConfig.cmake.in tuttiConfig.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change an interface. Headers fit every machine, whatever its pointer size.
write_basic_package_version_file(tuttiConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/tuttiConfig.cmake ${PROJECT_BINARY_DIR}/tuttiConfigVersion.cmake
  DESTINATION ${package_dir})

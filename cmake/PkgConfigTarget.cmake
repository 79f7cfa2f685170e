# pkg_config_target(PACKAGE LIBRARY SPEC): for the Find modules beside this file. Sets PACKAGE_FOUND and PACKAGE_VERSION,
# and makes the imported target PACKAGE::LIBRARY from the pkg-config module SPEC ("libzstd>=1.4.8").
include(FindPackageHandleStandardArgs)

macro(pkg_config_target package library spec)
  find_package(PkgConfig QUIET)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(${package}_PC QUIET IMPORTED_TARGET ${spec})
  endif()
  find_package_handle_standard_args(${package}
    REQUIRED_VARS ${package}_PC_LINK_LIBRARIES
    VERSION_VAR ${package}_PC_VERSION)
  set(${package}_VERSION ${${package}_PC_VERSION})
  if(${package}_FOUND AND NOT TARGET ${package}::${library})
    add_library(${package}::${library} ALIAS PkgConfig::${package}_PC)
  endif()
endmacro()

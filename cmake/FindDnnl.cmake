# Dnnl::dnnl: oneDNN, for convolutions and matrix products on the CPU. Debian's dnnl-config.cmake asks for packages that
# its users do not need, so header and library are looked for.
find_path(Dnnl_INCLUDE_DIR oneapi/dnnl/dnnl.h)
find_library(Dnnl_LIBRARY dnnl)
if(Dnnl_INCLUDE_DIR)
  file(STRINGS ${Dnnl_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h Dnnl_LINES REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH)")
  string(REGEX REPLACE "[^0-9]+" ";" Dnnl_VERSION "${Dnnl_LINES}")
  list(REMOVE_ITEM Dnnl_VERSION "")
  list(JOIN Dnnl_VERSION "." Dnnl_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Dnnl REQUIRED_VARS Dnnl_LIBRARY Dnnl_INCLUDE_DIR VERSION_VAR Dnnl_VERSION)
mark_as_advanced(Dnnl_INCLUDE_DIR Dnnl_LIBRARY)
if(Dnnl_FOUND AND NOT TARGET Dnnl::dnnl)
  add_library(Dnnl::dnnl UNKNOWN IMPORTED)
  set_target_properties(Dnnl::dnnl PROPERTIES IMPORTED_LOCATION ${Dnnl_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${Dnnl_INCLUDE_DIR})
endif()

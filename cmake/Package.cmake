# What `cmake --install` puts where.
include(CMakePackageConfigHelpers)

set(CKPT_INSTALL_CMAKEDIR ${CMAKE_INSTALL_LIBDIR}/cmake/ckpt)
# No folder below any prefix is searched by every Python; a package for one distribution knows its own.
set(CKPT_INSTALL_PYTHONDIR share/ckpt/python        CACHE STRING "Where ckpt.py goes, below the prefix")
set(CKPT_INSTALL_ZSHDIR    share/zsh/site-functions CACHE STRING "Where completion for zsh goes, below the prefix")

# The program, with completions and the man page made from its own tables.
install(TARGETS ckpt RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
if(NOT CMAKE_CROSSCOMPILING)
  set(made ${CMAKE_CURRENT_BINARY_DIR}/made)
  add_custom_command(OUTPUT ${made}/stamp
    COMMAND ${PROJECT_SOURCE_DIR}/tools/make_pages.sh $<TARGET_FILE:ckpt> ${made}
    COMMAND ${CMAKE_COMMAND} -E touch ${made}/stamp
    DEPENDS ckpt ${PROJECT_SOURCE_DIR}/tools/make_pages.sh
    VERBATIM)
  add_custom_target(pages ALL DEPENDS ${made}/stamp)
  install(FILES ${made}/ckpt.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ckpt
          COMPONENT program)
  install(FILES ${made}/_ckpt DESTINATION ${CKPT_INSTALL_ZSHDIR} COMPONENT program)
  install(DIRECTORY ${made}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program)
endif()

install(FILES tools/python/ckpt.py tools/python/ckpt_torch.py tools/python/ckpt_transformers.py
        DESTINATION ${CKPT_INSTALL_PYTHONDIR} COMPONENT python)

# The libraries, for C, C++, CMake and pkg-config.
install(DIRECTORY base/include/ckpt ckpt/include/ckpt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
if(CKPT_BUILD_SHARED)
  install(TARGETS libckpt_shared EXPORT ckptTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
  install(EXPORT ckptTargets NAMESPACE ckpt:: DESTINATION ${CKPT_INSTALL_CMAKEDIR} COMPONENT development)
endif()
# Training is a component of its own, with the heavy libraries that it needs.
if(CKPT_TRAIN)
  install(DIRECTORY core/include/ckpt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
  install(TARGETS libckpt_train EXPORT ckptTrainTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT train NAMELINK_COMPONENT development)
  install(EXPORT ckptTrainTargets NAMESPACE ckpt:: DESTINATION ${CKPT_INSTALL_CMAKEDIR} COMPONENT development)
endif()
if(CKPT_BUILD_STATIC)
  install(FILES ${PROJECT_BINARY_DIR}/ckpt/libckpt.a DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  # Who links the static library needs what it was built with, found by the same modules.
  install(FILES cmake/PkgConfigTarget.cmake cmake/FindZstd.cmake cmake/FindJansson.cmake cmake/FindXxhash.cmake
                cmake/FindLibdeflate.cmake cmake/FindIsal.cmake
          DESTINATION ${CKPT_INSTALL_CMAKEDIR} COMPONENT development)
endif()

configure_package_config_file(cmake/ckptConfig.cmake.in ckptConfig.cmake
  INSTALL_DESTINATION ${CKPT_INSTALL_CMAKEDIR}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(ckptConfigVersion.cmake COMPATIBILITY SameMajorVersion)
# Beside its prefix, wherever `cmake --install --prefix` or a move puts that: the prefix is found from the file itself.
# Folders that a distribution gives as absolute stay as they are.
file(RELATIVE_PATH CKPT_PC_TO_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
string(REGEX REPLACE "/$" "" CKPT_PC_TO_PREFIX "${CKPT_PC_TO_PREFIX}")
foreach(dir LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
    set(CKPT_PC_${dir} "${CMAKE_INSTALL_${dir}}")
  else()
    set(CKPT_PC_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
set(CKPT_PC_FILES)
foreach(module ckpt ckpt-train)
  if(module STREQUAL ckpt OR CKPT_TRAIN)
    configure_file(cmake/${module}.pc.in ${module}.pc @ONLY)
    list(APPEND CKPT_PC_FILES ${CMAKE_CURRENT_BINARY_DIR}/${module}.pc)
  endif()
endforeach()
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ckptConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/ckptConfigVersion.cmake
        DESTINATION ${CKPT_INSTALL_CMAKEDIR} COMPONENT development)
install(FILES ${CKPT_PC_FILES} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
install(FILES LICENSE README.md README.zh-CN.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
# Where the links of the README lead.
install(FILES docs/benchmarks.md docs/determinism.md docs/errors.md docs/format.md docs/python.md docs/training.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT program)
install(FILES docs/examples/training.c docs/examples/resume_torch.py docs/examples/resume_transformers.py
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs/examples COMPONENT program)

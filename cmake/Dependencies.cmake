# What is searched, and what it is for; `tools/deps.sh` installs all of it on Debian and Ubuntu.
include(FeatureSummary)

# ckpt_dependency(PACKAGE DEBIAN_NAME PURPOSE [RECOMMENDED]): required unless said otherwise.
macro(ckpt_dependency package debian purpose)
  set(ckpt_dependency_type REQUIRED ${ARGN})
  list(GET ckpt_dependency_type -1 ckpt_dependency_type)
  find_package(${package} QUIET)
  set_package_properties(${package} PROPERTIES
                         TYPE ${ckpt_dependency_type} DESCRIPTION "${debian}" PURPOSE "${purpose}")
endmacro()

ckpt_dependency(PkgConfig  "pkg-config"      "finds the libraries")
ckpt_dependency(Threads    "libc6-dev"       "pool and background writer")
ckpt_dependency(OpenSSL    "libssl-dev"      "SHA-256")
ckpt_dependency(Zstd       "libzstd-dev"     "entropy coding")
ckpt_dependency(Jansson    "libjansson-dev"  "snapshots, safetensors headers, --json")
ckpt_dependency(Xxhash     "libxxhash-dev"   "chunk checks, finding equal bytes")
ckpt_dependency(Libdeflate "libdeflate-dev"  "CRC-32 of zip files")
# Training is a plugin of its own; without these it is left out, and its commands say so.
ckpt_dependency(Dnnl   "libdnnl-dev" "training: convolutions and matrix products" RECOMMENDED)
set(openmp_debian gcc)
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
  set(openmp_debian libomp-dev)
endif()
ckpt_dependency(OpenMP "${openmp_debian}"         "training: the threads of oneDNN"            RECOMMENDED)
ckpt_dependency(ZLIB   "zlib1g-dev"  "training: data sets in .gz and .npz files"  RECOMMENDED)
set(CKPT_TRAIN ON)
set(CKPT_TRAIN_NOTE "libckpt-train.so, which the training commands load")
foreach(package_and_debian Dnnl:libdnnl-dev OpenMP_C:${openmp_debian} ZLIB:zlib1g-dev)
  string(REPLACE ":" ";" package_and_debian ${package_and_debian})
  list(GET package_and_debian 0 package)
  list(GET package_and_debian 1 debian)
  if(NOT ${package}_FOUND)
    set(CKPT_TRAIN OFF)
    set(CKPT_TRAIN_NOTE "it needs ${debian}, which is missing")
  endif()
endforeach()
# Who only builds and installs needs nothing of the tests: without their packages they are switched off, and the summary
# says why.
set(CKPT_TESTS_NOTE "ctest")
if(CKPT_BUILD_TESTS)
  ckpt_dependency(Cmocka  "libcmocka-dev" "unit tests" RECOMMENDED)
  ckpt_dependency(Python3 "python3"       "source checks and tests that compare with Python" RECOMMENDED)
  foreach(package_and_debian Cmocka:libcmocka-dev Python3:python3)
    string(REPLACE ":" ";" package_and_debian ${package_and_debian})
    list(GET package_and_debian 0 package)
    list(GET package_and_debian 1 debian)
    if(NOT ${package}_FOUND)
      set(CKPT_BUILD_TESTS OFF) # of this run only: the cache keeps what was asked for
      set(CKPT_TESTS_NOTE "they need ${debian}, which is missing; `tools/deps.sh test` installs it")
    endif()
  endforeach()
endif()

feature_summary(WHAT REQUIRED_PACKAGES_NOT_FOUND FATAL_ON_MISSING_REQUIRED_PACKAGES QUIET_ON_EMPTY
                DESCRIPTION "Missing (tools/deps.sh installs them on Debian and Ubuntu):")

# What is searched, and what it is for; `tools/deps.sh` installs all of it on Debian and Ubuntu.
include(FeatureSummary)

# ckpt_dependency(PACKAGE DEBIAN_NAME PURPOSE [MISSING]): required, unless a variable MISSING is named: then the name goes
# into that list where the package is not there.
macro(ckpt_dependency package debian purpose)
  find_package(${package} QUIET)
  if(${ARGC} GREATER 3)
    set_package_properties(${package} PROPERTIES TYPE RECOMMENDED DESCRIPTION "${debian}" PURPOSE "${purpose}")
    if(NOT ${package}_FOUND)
      list(APPEND ${ARGV3} "${debian}")
    endif()
  else()
    set_package_properties(${package} PROPERTIES TYPE REQUIRED DESCRIPTION "${debian}" PURPOSE "${purpose}")
  endif()
endmacro()

ckpt_dependency(PkgConfig  "pkg-config"      "finds the libraries")
ckpt_dependency(Threads    "libc6-dev"       "pool and background writer")
ckpt_dependency(OpenSSL    "libssl-dev"      "SHA-256")
ckpt_dependency(Zstd       "libzstd-dev"     "entropy coding")
ckpt_dependency(Jansson    "libjansson-dev"  "snapshots, safetensors headers, --json")
ckpt_dependency(Xxhash     "libxxhash-dev"   "chunk checks, finding equal bytes")
ckpt_dependency(Libdeflate "libdeflate-dev"  "zip files: CRC-32, deflate")
ckpt_dependency(Isal       "libisal-dev"     "parity (Reed-Solomon)")

# Training is a plugin of its own; without these it is left out, and its commands say so.
set(openmp_debian "gcc")
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
  set(openmp_debian "libomp-dev")
endif()
ckpt_dependency(Dnnl   "libdnnl-dev"      "training: convolutions and matrix products" train_missing)
ckpt_dependency(OpenMP "${openmp_debian}" "training: the threads of oneDNN"            train_missing)
ckpt_dependency(ZLIB   "zlib1g-dev"       "training: data sets in .gz and .npz files"  train_missing)
set(CKPT_TRAIN ON)
set(CKPT_TRAIN_NOTE "libckpt-train.so, which the training commands load")
if(train_missing)
  list(JOIN train_missing ", " train_missing)
  set(CKPT_TRAIN OFF)
  set(CKPT_TRAIN_NOTE "missing: ${train_missing}")
endif()

# Who only builds and installs needs nothing of the tests: without their packages they are switched off, and the summary
# says why.
set(CKPT_TESTS_NOTE "ctest")
if(CKPT_BUILD_TESTS)
  ckpt_dependency(Cmocka  "libcmocka-dev" "unit tests" tests_missing)
  ckpt_dependency(Python3 "python3"       "source checks and tests that compare with Python" tests_missing)
  if(tests_missing)
    list(JOIN tests_missing ", " tests_missing)
    set(CKPT_BUILD_TESTS OFF) # of this run only: the cache keeps what was asked for
    set(CKPT_TESTS_NOTE "missing: ${tests_missing}; `tools/deps.sh test` installs it")
  endif()
endif()

feature_summary(WHAT REQUIRED_PACKAGES_NOT_FOUND FATAL_ON_MISSING_REQUIRED_PACKAGES QUIET_ON_EMPTY
                DESCRIPTION "Missing (tools/deps.sh installs them on Debian and Ubuntu):")

# What is searched, and what it is for; `tools/deps.sh` installs all of it on Debian and Ubuntu.
include(FeatureSummary)

macro(ckpt_dependency package debian purpose)
  find_package(${package} QUIET)
  set_package_properties(${package} PROPERTIES TYPE REQUIRED DESCRIPTION "${debian}" PURPOSE "${purpose}")
endmacro()

ckpt_dependency(PkgConfig  "pkg-config"      "finds the libraries")
ckpt_dependency(Threads    "libc6-dev"       "pool and background writer")
ckpt_dependency(OpenSSL    "libssl-dev"      "SHA-256")
ckpt_dependency(Zstd       "libzstd-dev"     "entropy coding")
ckpt_dependency(Jansson    "libjansson-dev"  "snapshots, safetensors headers, --json")
ckpt_dependency(Xxhash     "libxxhash-dev"   "chunk checks, finding equal bytes")
ckpt_dependency(Libdeflate "libdeflate-dev"  "CRC-32 of zip files")
if(CKPT_BUILD_TESTS)
  ckpt_dependency(Cmocka "libcmocka-dev" "unit tests")
  ckpt_dependency(Python3 "python3" "source checks and tests that compare with Python")
endif()

feature_summary(WHAT REQUIRED_PACKAGES_NOT_FOUND FATAL_ON_MISSING_REQUIRED_PACKAGES QUIET_ON_EMPTY
                DESCRIPTION "Missing (tools/deps.sh installs them on Debian and Ubuntu):")

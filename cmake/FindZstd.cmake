# Zstd::zstd: frames and general entropy coding.
include(PkgConfigTarget)
pkg_config_target(Zstd zstd "libzstd>=1.4.8")

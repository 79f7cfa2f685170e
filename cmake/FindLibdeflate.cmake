# Libdeflate::libdeflate: CRC-32 at hardware speed.
include(PkgConfigTarget)
pkg_config_target(Libdeflate libdeflate "libdeflate>=1.8")

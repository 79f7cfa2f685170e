# Xxhash::xxhash: XXH3, for chunk checks and for finding equal bytes.
include(PkgConfigTarget)
pkg_config_target(Xxhash xxhash "libxxhash>=0.8.0")

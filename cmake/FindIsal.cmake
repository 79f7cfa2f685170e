# Isal::isal: Reed-Solomon codes at the speed of memory.
include(PkgConfigTarget)
pkg_config_target(Isal isal "libisal>=2.30")

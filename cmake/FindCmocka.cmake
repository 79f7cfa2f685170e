# Cmocka::cmocka: the framework of the unit tests.
include(PkgConfigTarget)
pkg_config_target(Cmocka cmocka "cmocka>=1.1.5")

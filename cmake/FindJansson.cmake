# Jansson::jansson: JSON.
include(PkgConfigTarget)
pkg_config_target(Jansson jansson "jansson>=2.13")

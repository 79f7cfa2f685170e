#!/bin/sh
# run_consumer.sh BUILD HERE: installs BUILD into a scratch prefix, moves it (so that nothing depends on where it was
# put), and builds and runs the project beside this script against it.
set -eu
build=$1
project=$2/project
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

quietly() {
    "$@" >"$tmp/log" 2>&1 || {
        cat "$tmp/log"
        exit 1
    }
}

quietly cmake --install "$build" --prefix "$tmp/first"
mv "$tmp/first" "$tmp/prefix"
prefix=$tmp/prefix
libdir=$(dirname "$(find "$prefix" -name libckpt.a)")

run() {
    rm -rf "$tmp/store"
    mkdir "$tmp/store"
    printf '%-18s' "$1"
    shift
    LD_LIBRARY_PATH=$libdir "$@" "$tmp/store"
}

quietly cmake -S "$project" -B "$tmp/cmake" -DCMAKE_PREFIX_PATH="$prefix"
quietly cmake --build "$tmp/cmake"
run "CMake, shared" "$tmp/cmake/consumer_shared"
run "CMake, static" "$tmp/cmake/consumer_static"

export PKG_CONFIG_PATH="$libdir/pkgconfig"
pc=pkg-config
[ "$(realpath "$($pc --variable=prefix ckpt)")" = "$(realpath "$prefix")" ] || {
    echo "ckpt.pc does not name the prefix it was installed into"
    exit 1
}
cc=${CC:-cc}
# shellcheck disable=SC2046 # flags are words
$cc -o "$tmp/shared" "$project/consumer.c" $($pc --cflags --libs ckpt)
run "pkg-config, shared" "$tmp/shared"
# shellcheck disable=SC2046
$cc -o "$tmp/static" "$project/consumer.c" $($pc --cflags ckpt) \
    $($pc --static --libs ckpt | sed 's/-lckpt/-l:libckpt.a/')
run "pkg-config, static" "$tmp/static"

# Every shared library that a program of ours needs is the one with the major version in its name.
readelf -d "$tmp/shared" | grep -q 'NEEDED.*\[libckpt\.so\.[0-9]*\]'
ckpt=$prefix/bin/ckpt
[ -x "$ckpt" ]
"$ckpt" version

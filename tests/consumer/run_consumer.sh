#!/bin/sh
# run_consumer.sh BUILD HERE: installs BUILD into a scratch prefix, moves it (so that nothing depends on where it was
# put), and builds and runs the project beside this script against it.
set -eu
build=$1
project=$2/project
data=$2/../golden/fashion-2000
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
    printf '%-20s' "$1"
    shift
    program=$1
    shift
    LD_LIBRARY_PATH=$libdir "$program" "$tmp/store" "$@"
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

# Training, where it was built: its libraries may be missing.
if [ -e "$libdir/pkgconfig/ckpt-train.pc" ]; then
    run "CMake, train" "$tmp/cmake/consumer_train" "$data"
    # shellcheck disable=SC2046
    $cc -o "$tmp/train" "$project/consumer_train.c" $($pc --cflags --libs ckpt-train ckpt)
    run "pkg-config, train" "$tmp/train" "$data"
    readelf -d "$tmp/train" | grep -q 'NEEDED.*\[libckpt-train\.so\.[0-9]*\]'
else
    [ ! -e "$tmp/cmake/consumer_train" ] || { echo "training is found where it is not installed"; exit 1; }
fi

# Every shared library that a program of ours needs is the one with the major version in its name.
readelf -d "$tmp/shared" | grep -q 'NEEDED.*\[libckpt\.so\.[0-9]*\]'
ckpt=$prefix/bin/ckpt
[ -x "$ckpt" ]
"$ckpt" version
# The program finds its plugin from where it is, and knows when it is not there.
if [ -e "$libdir/pkgconfig/ckpt-train.pc" ]; then
    ! readelf -d "$ckpt" | grep -E 'R(UN)?PATH.*(:|\[)(\]|:)' || { echo "ckpt looks for libraries in any folder"; exit 1; }
    "$ckpt" train --print mnist-cnn >"$tmp/recipe.ini"
    mkdir "$tmp/elsewhere"
    cp "$ckpt" "$tmp/elsewhere/ckpt"
    status=0
    "$tmp/elsewhere/ckpt" train --print mnist-cnn 2>"$tmp/missing" || status=$?
    [ $status -eq 9 ] || { cat "$tmp/missing"; echo "without its plugin ckpt ends with $status"; exit 1; }
fi

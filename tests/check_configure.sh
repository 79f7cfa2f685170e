#!/bin/sh
# check_configure.sh SOURCE: configures where packages are missing. Those of the tests switch the tests off, those of
# training the training, and the summary says so; one that the program needs stops with its name.
set -eu
source=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

configure() { # PACKAGE: as if it were not there
    cmake -S "$source" -B "$tmp/without_$1" -DCMAKE_DISABLE_FIND_PACKAGE_"$1"=ON >"$tmp/$1" 2>&1
}

says() { # PACKAGE TEXT
    grep -qF "$2" "$tmp/$1" || { cat "$tmp/$1"; echo "without $1 the output should say: $2"; exit 1; }
}

for package_and_debian in Cmocka:libcmocka-dev Python3:python3; do
    package=${package_and_debian%:*} debian=${package_and_debian#*:}
    configure $package || { cat "$tmp/$package"; echo "does not configure without $package"; exit 1; }
    says $package "* tests, missing: $debian; \`tools/deps.sh test\` installs it"
    echo "without $package: no tests"
done

for package_and_debian in Dnnl:libdnnl-dev OpenMP:gcc ZLIB:zlib1g-dev; do
    package=${package_and_debian%:*} debian=${package_and_debian#*:}
    configure $package || { cat "$tmp/$package"; echo "does not configure without $package"; exit 1; }
    says $package "* training, missing: $debian"
    echo "without $package: no training"
done

# Where pkg-config finds nothing, all that it is asked for is named at once.
if PKG_CONFIG_LIBDIR=$tmp cmake -S "$source" -B "$tmp/without_libraries" >"$tmp/libraries" 2>&1; then
    echo "configures without libraries"
    exit 1
fi
for debian in libzstd-dev libjansson-dev libxxhash-dev libdeflate-dev libisal-dev; do
    says libraries $debian
done
echo "without libraries: refused"

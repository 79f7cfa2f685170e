#!/usr/bin/env bash
# Makes two Debian packages: ckpt has the program, both libraries, headers, man page, completions and the Python module;
# ckpt-train has what trains, with the libraries that only training needs.
#
#   tools/package.sh [DIR]   writes ckpt_VERSION_ARCH.deb and ckpt-train_VERSION_ARCH.deb into DIR (build/), and checks
#                            them by unpacking them elsewhere and using what is in them
set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "$0")")")
. "$root/tools/build.sh"

usage() {
    sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"
}
case ${1:-} in
-h | --help) usage; exit 0 ;;
-*) usage >&2; exit 2 ;;
esac
mkdir -p "${1:-$root/build}"
out=$(readlink -f "${1:-$root/build}")

deps build package
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

arch=$(dpkg --print-architecture)
multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
build_preset package
tree=$tmp/tree
DESTDIR=$tree quietly cmake --install "$root/build/package" --strip
version=$(sed -n 's/^Version: //p' "$tree/usr/lib/$multiarch/pkgconfig/ckpt.pc")
mv "$tree/usr/share/doc/ckpt/LICENSE" "$tree/usr/share/doc/ckpt/copyright"
find "$tree/usr/share/man" -type f -exec gzip -9n {} +

# What trains goes into a tree of its own.
train=$tmp/train
(cd "$tree" && find usr -name '*ckpt-train*' -o -name 'ckptTrainTargets*' -o -path '*/ckpt/train.h') |
    while read -r file; do
        mkdir -p "$train/$(dirname "$file")"
        mv "$tree/$file" "$train/$file"
    done
mkdir -p "$train/usr/share/doc/ckpt-train"
cp "$tree/usr/share/doc/ckpt/copyright" "$train/usr/share/doc/ckpt-train/"

# dpkg-shlibdeps wants a source package; this is the least that it reads.
mkdir "$tmp/debian"
printf 'Source: ckpt\n\nPackage: ckpt\nArchitecture: any\n' >"$tmp/debian/control"

shared_libraries() { # FILE...: the packages that they need
    local depends
    depends=$(cd "$tmp" && dpkg-shlibdeps -O --ignore-missing-info -l"$tree/usr/lib/$multiarch" "$@" 2>/dev/null |
        sed -n 's/^shlibs:Depends=//p')
    [ -n "$depends" ] || { echo "package.sh: dpkg-shlibdeps found no dependencies of $*" >&2; exit 1; }
    echo "$depends"
}

make_deb() { # NAME TREE: standard input has the fields of its own; the name of the package is in $deb
    mkdir "$2/DEBIAN"
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: %s\nInstalled-Size: %s\n' \
            "$1" "$version" "$arch" "$(du -sk "$2/usr" | cut -f1)"
        printf 'Maintainer: The ckpt authors <ckpt@localhost>\nSection: science\nPriority: optional\n'
        cat
    } >"$2/DEBIAN/control"
    printf 'activate-noawait ldconfig\n' >"$2/DEBIAN/triggers"
    (cd "$2" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$2/DEBIAN/md5sums"
    deb=$out/$1_${version}_$arch.deb
    quietly dpkg-deb --root-owner-group --build "$2" "$deb"
}

depends=$(shared_libraries "$train/usr/lib/$multiarch/libckpt-train.so.$version")
make_deb ckpt-train "$train" <<END
Depends: ckpt (= $version), $depends
Suggests: dataset-fashion-mnist
Description: training that survives its machine, for ckpt
 What \`ckpt train\` loads: networks trained on the CPU, saved in the background
 every few steps, and resumed to the same bits after any kill.
END
train_deb=$deb

depends=$(shared_libraries "$tree/usr/bin/ckpt" "$tree/usr/lib/$multiarch/libckpt.so.$version")
make_deb ckpt "$tree" <<END
Depends: $depends
Suggests: ckpt-train, libzstd-dev, libjansson-dev, libssl-dev, libxxhash-dev, libdeflate-dev, libisal-dev
Description: keep every checkpoint of a training in a fraction of the space
 ckpt saves the checkpoint files that PyTorch and others write into a store that
 holds each of them bit-exact, as differences where that is smaller, and that
 never loses a committed one, whatever kills the machine.
END

# ---- The check --------------------------------------------------------------------------------------------------------

broken() {
    echo "package.sh: $*" >&2
    exit 1
}

check=$tmp/check
dpkg -x "$deb" "$check"
for file in usr/bin/ckpt "usr/lib/$multiarch/libckpt.so" "usr/lib/$multiarch/libckpt.a" usr/include/ckpt/store.h \
    usr/include/ckpt/export.h usr/include/ckpt/stats.h usr/include/ckpt/error.h usr/share/man/man1/ckpt.1.gz \
    usr/share/bash-completion/completions/ckpt usr/share/zsh/vendor-completions/_ckpt \
    usr/lib/python3/dist-packages/ckpt.py \
    usr/lib/python3/dist-packages/ckpt_torch.py usr/lib/python3/dist-packages/ckpt_transformers.py; do
    [ -e "$check/$file" ] || broken "$deb has no $file"
done

PATH=$check/usr/bin:$PATH
[ "$(command -v ckpt)" = "$check/usr/bin/ckpt" ] || broken "the shell finds another ckpt"
unset CKPT_STORE
cd "$tmp"
ckpt -q init
ckpt -q save "$root/tests/golden/trajectory-tiny/checkpoint_epoch_1.pt"
ckpt -q restore latest -o restored
cmp "$root/tests/golden/trajectory-tiny/checkpoint_epoch_1.pt" restored/checkpoint_epoch_1.pt ||
    broken "the packaged program restores other bytes"
if command -v python3 >/dev/null; then
    PYTHONPATH=$check/usr/lib/python3/dist-packages LD_LIBRARY_PATH=$check/usr/lib/$multiarch \
        python3 -B -c 'import ckpt; assert len(ckpt.log()) == 1' || broken "the packaged Python module does not work"
fi
! ldd "$check/usr/bin/ckpt" "$check/usr/lib/$multiarch/libckpt.so" | grep "not found" || broken "a library is missing"

# Training comes with its package, and is missed by name without.
status=0
ckpt train --print mnist-cnn >recipe.ini 2>missing.txt || status=$?
[ $status -eq 9 ] && grep -q ckpt-train missing.txt || broken "without ckpt-train training ends with $status"
dpkg -x "$train_deb" "$check"
for file in "usr/lib/$multiarch/libckpt-train.so" usr/include/ckpt/train.h "usr/lib/$multiarch/pkgconfig/ckpt-train.pc"; do
    [ -e "$check/$file" ] || broken "$train_deb has no $file"
done
! ldd "$check/usr/lib/$multiarch/libckpt-train.so" | grep "not found" || broken "a library of training is missing"
ckpt train mnist-cnn --data "$root/tests/golden/fashion-2000" --steps 2 -q ||
    broken "the packaged program does not train"

for deb in "$deb" "$train_deb"; do
    echo "$deb"
    dpkg-deb --field "$deb" Version Architecture Depends Installed-Size
done

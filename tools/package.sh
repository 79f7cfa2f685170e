#!/usr/bin/env bash
# Makes a Debian package of ckpt: the program, both libraries, headers, man page, completions, the Python module.
#
#   tools/package.sh [DIR]   writes ckpt_VERSION_ARCH.deb into DIR (build/), and checks it by unpacking it elsewhere and
#                            using what is in it
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

# dpkg-shlibdeps wants a source package; this is the least that it reads.
mkdir "$tmp/debian"
printf 'Source: ckpt\n\nPackage: ckpt\nArchitecture: any\n' >"$tmp/debian/control"
depends=$(cd "$tmp" && dpkg-shlibdeps -O --ignore-missing-info -l"$tree/usr/lib/$multiarch" \
    "$tree/usr/bin/ckpt" "$tree/usr/lib/$multiarch/libckpt.so.$version" 2>/dev/null |
    sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || { echo "package.sh: dpkg-shlibdeps found no dependencies" >&2; exit 1; }

mkdir "$tree/DEBIAN"
cat >"$tree/DEBIAN/control" <<END
Package: ckpt
Version: $version
Architecture: $arch
Maintainer: The ckpt authors <ckpt@localhost>
Section: science
Priority: optional
Depends: $depends
Suggests: libzstd-dev, libjansson-dev, libssl-dev, libxxhash-dev, libdeflate-dev
Installed-Size: $(du -sk "$tree/usr" | cut -f1)
Description: keep every checkpoint of a training in a fraction of the space
 ckpt saves the checkpoint files that PyTorch and others write into a store that
 holds each of them bit-exact, as differences where that is smaller, and that
 never loses a committed one, whatever kills the machine.
END
printf 'activate-noawait ldconfig\n' >"$tree/DEBIAN/triggers"
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"

deb=$out/ckpt_${version}_$arch.deb
quietly dpkg-deb --root-owner-group --build "$tree" "$deb"

# ---- The check --------------------------------------------------------------------------------------------------------

broken() {
    echo "package.sh: $*" >&2
    exit 1
}

check=$tmp/check
dpkg -x "$deb" "$check"
for file in usr/bin/ckpt "usr/lib/$multiarch/libckpt.so" "usr/lib/$multiarch/libckpt.a" usr/include/ckpt/store.h \
    usr/include/ckpt/error.h usr/share/man/man1/ckpt.1.gz usr/share/bash-completion/completions/ckpt \
    usr/share/zsh/vendor-completions/_ckpt usr/lib/python3/dist-packages/ckpt.py; do
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

echo "$deb"
dpkg-deb --field "$deb" Version Architecture Depends Installed-Size

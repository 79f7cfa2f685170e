#!/usr/bin/env bash
# Both commands of the README on a Debian 12 on which nothing is installed.
#
#   tests/bare_debian.sh [DIR]   as root; makes the system in DIR (a temporary folder, removed afterwards), or uses the one
#                                that an earlier run with the same DIR has made
#
# The source goes in as a clone of what is committed, without its history. MIRROR=URL names a mirror of Debian; else it
# is that of this machine.
set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "$0")")")

case ${1:-} in
-*) sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 2 ;;
esac
[ "$(id -u)" -eq 0 ] || { echo "bare_debian.sh: debootstrap and chroot need root" >&2; exit 10; }
"$root/tools/deps.sh" bare

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
base=${1:-$tmp/base}
if [ ! -e "$base/etc/debian_version" ]; then
    # The mirror of this machine, which is that of the suite and not of its security updates.
    mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | awk '!/security/ && !n++')}
    debootstrap --variant=minbase bookworm "$base" "$mirror" >"$tmp/debootstrap.log" ||
        { cat "$tmp/debootstrap.log"; exit 10; }
fi

# A copy, so that the system stays bare; and a copy of the source that has no git about it.
cp -a "$base" "$tmp/system"
cp /etc/resolv.conf "$tmp/system/etc/resolv.conf"
git clone -q --depth 1 "file://$root" "$tmp/system/src"
rm -rf "$tmp/system/src/.git"

cat >"$tmp/system/check" <<'END'
#!/bin/bash
set -eu
mount -t proc proc /proc
mkdir -p /dev/pts /dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts
ln -sf pts/ptmx /dev/ptmx
mount -t tmpfs tmpfs /dev/shm
cd /src
for command in tools/demo.sh tests/run.sh; do
    echo "== bare Debian: $command"
    started=$SECONDS
    $command
    echo "== $command: $((SECONDS - started)) s"
done
END
chmod +x "$tmp/system/check"
# Mounts and processes of the new system end with it.
unshare --mount --pid --fork env -i HOME=/ PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM="${TERM:-dumb}" \
    chroot "$tmp/system" /check </dev/null

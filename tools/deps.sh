#!/usr/bin/env bash
# Installs the packages that ckpt needs, as root or with sudo, on Debian and Ubuntu; elsewhere names them and stops.
#
#   tools/deps.sh GROUP...         installs what is missing of the groups: build data test full package bare
#   tools/deps.sh --list GROUP...  prints the packages
#
# The list is tools/packages.txt.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")

usage() {
    sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"
}

packages_of() { # GROUP...
    local group
    for group in "$@"; do
        grep -q "^$group " "$here/packages.txt" || { echo "deps.sh: no group '$group' in packages.txt" >&2; exit 2; }
        awk -v group="$group" '$1 == group { print $2 }' "$here/packages.txt"
    done
}

is_installed() { # PACKAGE; a package that another one provides counts
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

case ${1:-} in
'' | -h | --help) usage; exit 0 ;;
--list) shift; packages_of "$@"; exit 0 ;;
esac

wanted=$(packages_of "$@")
if ! command -v apt-get >/dev/null; then
    cat <<END
deps.sh: this is neither Debian nor Ubuntu. Please install what provides these, by the names of Debian:
$(echo "$wanted" | fmt -w 76 | sed 's/^/    /')
hint: then run the script again with CKPT_DEPS=skip
END
    exit 9
fi >&2

missing=()
for package in $wanted; do
    is_installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
        printf 'deps.sh: neither root nor sudo. As root: apt-get install %s\n' "${missing[*]}" >&2
        exit 10
    }
    as_root=(sudo)
fi

apt() {
    ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120 "$@"
}

echo "Installing: ${missing[*]}" | fmt -w 78
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A fresh machine has no package lists, an old one has lists of packages that are gone.
{ apt install --yes --no-install-recommends "${missing[@]}" ||
    { apt update && apt install --yes --no-install-recommends "${missing[@]}"; }; } >"$log" 2>&1 || {
    cat "$log" >&2
    echo "deps.sh: apt-get could not install them (see above)" >&2
    exit 10
}

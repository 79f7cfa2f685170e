#!/bin/sh
# check_headers.sh SOURCE: each public header compiles alone, twice in one file, under the strictest flags, as C11 and
# C++17, with every compiler of gcc and clang that is here, and so does a variable that begins as each CKPT_..._INIT; the
# examples at the top of headers compile too, as C11.
set -eu
source=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

flags="-Wall -Wextra -Wpedantic -Werror -Wshadow -Wconversion -Wsign-conversion -Wundef -Wcast-qual"
c_flags="$flags -std=c11 -Wstrict-prototypes -Wmissing-prototypes -Wc++-compat"
cxx_flags="$flags -std=c++17 -Wold-style-cast"
includes="-I$source/base/include -I$source/ckpt/include -I$source/core/include"
headers=0

for header in "$source"/*/include/ckpt/*.h; do
    name=ckpt/$(basename "$header")
    printf '#include <%s>\n#include <%s>\n' "$name" "$name" >"$tmp/header.c"
    for init in $(grep -o 'CKPT_[A-Z_]*_INIT\b' "$header" | sort -u); do # of the type of that name, with all its members
        type=$(echo "${init%_INIT}" | tr A-Z a-z)
        printf 'size_t %s_size(void);\nsize_t %s_size(void)\n{\n    const %s given = %s;\n    return given.size;\n}\n' \
            "$type" "$type" "$type" "$init" >>"$tmp/header.c"
    done
    cp "$tmp/header.c" "$tmp/header.cpp"
    for compiler in gcc clang g++ clang++; do
        command -v $compiler >/dev/null || continue
        case $compiler in
        *++) language_flags=$cxx_flags file=$tmp/header.cpp ;;
        *) language_flags=$c_flags file=$tmp/header.c ;;
        esac
        # shellcheck disable=SC2086 # flags are words
        $compiler $language_flags $includes -fsyntax-only "$file"
        echo "$compiler: $name"
    done
    headers=$((headers + 1))
done

check_example() { # FOLDER HEADER FUNCTION: the lines of the first comment that are indented by four blanks more than its text
    {
        printf '#include <ckpt/%s>\n#include <stdio.h>\nint main(void)\n{\n' "$2"
        sed -n '1,/\*\/$/s/^ \*     /    /p' "$source/$1/include/ckpt/$2"
        printf '    return rc;\n}\n'
    } >"$tmp/example.c"
    grep -q "$3" "$tmp/example.c" || { echo "$2 has lost its example"; exit 1; }
    for compiler in gcc clang; do
        command -v $compiler >/dev/null || continue
        # shellcheck disable=SC2086 # flags are words
        sed 's|//.*||' "$tmp/example.c" | $compiler $c_flags $includes -fsyntax-only -x c -
        echo "$compiler: the example of ckpt/$2"
    done
}
check_example ckpt store.h ckpt_save_files
check_example ckpt export.h ckpt_export
check_example ckpt stats.h ckpt_stats_get
check_example core train.h ckpt_training_run
[ $headers -gt 0 ] || { echo "no public header found below $source"; exit 1; }

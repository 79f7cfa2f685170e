#!/usr/bin/env bash
# Builds ckpt in release and with sanitizers and runs all tests.
#
#   tests/run.sh [--full] [--only PRESET] [CTEST ARGUMENT...]
#
#   --full          also the long tests (label `full`); CKPT_SAMPLES=DIR adds a folder of checkpoints to them
#   --only PRESET   release, asan or tsan alone
#   CTEST ARGUMENT  for example: -R test_pack, -L cli, --repeat until-fail:20
#
# Needs nothing installed but Debian 12 or newer, or Ubuntu 22.04 or newer: installs what is missing with apt-get, as root
# or with sudo. CKPT_DEPS=skip leaves that out. CKPT_WERROR=ON makes warnings errors, as CI does; another compiler may have
# others. Ends with 0 when everything passed.
set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "$0")")")
. "$root/tools/build.sh"

full=no
presets=(release asan tsan)
ctest_arguments=()
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --full) full=yes ;;
    --only)
        [ $# -gt 1 ] || { echo "run.sh: --only needs a preset" >&2; exit 2; }
        presets=("$2")
        shift
        ;;
    *) ctest_arguments+=("$1") ;;
    esac
    shift
done

groups=(build test)
[ $full = no ] || groups+=(full package)
deps "${groups[@]}"

times=$(mktemp)
trap 'rm -f "$times" "$times".*' EXIT

# The thread sanitizer of older compilers cannot work where the kernel randomises addresses by more than 28 bits.
without_randomised_addresses() {
    if setarch "$(uname -m)" --addr-no-randomize true 2>/dev/null; then
        setarch "$(uname -m)" --addr-no-randomize "$@"
    else
        "$@"
    fi
}

test_preset() { # PRESET
    local preset=$1 selection=() run=()
    case $preset in
    tsan)
        # Threads only: the rest would run the same code in one thread.
        selection+=(-L '^threads$')
        [ $full = yes ] || selection+=(-LE '^full$')
        run=(without_randomised_addresses)
        export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
        ;;
    asan)
        export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
        export UBSAN_OPTIONS=print_stacktrace=1
        # These look at the source or at an installed copy: once, in release, is enough.
        selection+=(-LE '^(source|install|full)$')
        ;;
    *) [ $full = yes ] || selection+=(-LE '^full$') ;;
    esac
    # A whole run in which nothing was tested has failed; a chosen test may be in one of the builds only.
    [ ${#ctest_arguments[@]} -gt 0 ] || selection+=(--no-tests=error)
    ${run[@]+"${run[@]}"} ctest --test-dir "$root/build/$preset" --output-on-failure --parallel "$(nproc)" \
        ${selection[@]+"${selection[@]}"} ${ctest_arguments[@]+"${ctest_arguments[@]}"} 2>&1 | tee "$times.$preset"
}

failed=()
for preset in "${presets[@]}"; do
    started=$SECONDS
    echo "== $preset: build"
    if ! build_preset "$preset" -DCKPT_WERROR="${CKPT_WERROR:-OFF}"; then
        failed+=("$preset (build)")
        continue
    fi
    echo "== $preset: test (built in $((SECONDS - started)) s)"
    test_preset "$preset" || failed+=("$preset")
    sed -n "s/^ *[0-9]*\/[0-9]* Test *#[0-9]*: \([^ ]*\) .* \([0-9.]*\) sec.*/\2 s  $preset \1/p" \
        "$times.$preset" >>"$times"
done

echo
echo "== the ten slowest tests"
sort -rn "$times" | sed -n 1,10p # not head: it would end sort with a signal, and pipefail this script
echo
if [ ${#failed[@]} -gt 0 ]; then
    printf 'failed: %s\n' "${failed[*]}"
    exit 1
fi
echo "all passed: ${presets[*]} ($((SECONDS / 60)) min $((SECONDS % 60)) s)"

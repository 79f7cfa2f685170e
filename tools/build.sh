# Sourced by tools/demo.sh, tests/run.sh and tools/package.sh: configuring and building a preset, quietly when it works.
# shellcheck shell=bash disable=SC2154 # root is set by who sources this
# Expects the root of the source in $root.

deps() { # GROUP...: CKPT_DEPS=skip says that everything is there
    [ "${CKPT_DEPS:-}" = skip ] || "$root/tools/deps.sh" "$@"
}

quietly() { # COMMAND...: prints the output only when the command fails
    local log
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then
        rm -f "$log"
    else
        cat "$log" >&2
        rm -f "$log"
        echo "failed: $*" >&2
        return 1
    fi
}

build_preset() { # PRESET [CMAKE OPTION...]: builds into build/PRESET
    local preset=$1 generator=()
    shift
    # A build folder keeps the generator that it was made with.
    if [ ! -e "$root/build/$preset/CMakeCache.txt" ] && command -v ninja >/dev/null; then
        generator=(-G Ninja)
    fi
    (cd "$root" && quietly cmake --preset "$preset" ${generator[@]+"${generator[@]}"} "$@") || return
    quietly cmake --build "$root/build/$preset" --parallel "$(nproc)"
}

#include "bench.h"

#include "clock.h"
#include "fail.h"
#include "print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* States of one training, ten steps apart; the pair of the table is the first and the last. */
static const char *const STATES[] = {"state_0050.pt", "state_0060.pt", "state_0070.pt", "state_0080.pt",
                                     "state_0090.pt"};
#define CHAIN_DEPTH 4

/* What is saved before, and what is timed. */
typedef struct scene {
    const char *name;
    size_t before; /* how many of STATES are in the store */
    const char *timed;
    ckpt_level level; /* of the one that is timed */
    const char *bytes_bar, *save_bar, *file_bar, *memory_bar;
} scene;

static const scene SCENES[] = {
    {"keyframe", 0, "state_0050.pt", CKPT_LEVEL_DEFAULT, "", ">= 0.4", ">= 0.6", ">= 1.3"},
    {"keyframe, level fast", 0, "state_0050.pt", CKPT_LEVEL_FAST, "<= 0.86", ">= 0.67 times", "", ">= 1.6"},
    {"delta on a keyframe", 1, BENCH_STATE_LAST, CKPT_LEVEL_DEFAULT, "", ">= 0.3", ">= 0.4", ">= 0.8"},
    {"delta on a keyframe, level max", 1, BENCH_STATE_LAST, CKPT_LEVEL_MAX, "", "", "", ""},
    {"delta at depth 4", CHAIN_DEPTH, "state_0090.pt", CKPT_LEVEL_DEFAULT, "", ">= 0.18", ">= 0.22", ">= 0.33"},
};

typedef struct timings {
    double ours[BENCH_ROUNDS_MAX], peer[BENCH_ROUNDS_MAX], cpu[BENCH_ROUNDS_MAX], peer_cpu[BENCH_ROUNDS_MAX];
    size_t count;
} timings;

static int row(bench *b, const char *what, const char *scene_name, timings *t, uint64_t bytes, const char *peer,
               const char *bar, ckpt_error *err)
{
    int rc = 0;
    char text[128];
    const double gb = (double)bytes / 1e9;
    const bool with_peer = b->peer && peer[0];

    snprintf(text, sizeof text, "%s, %s", what, scene_name);
    TRY(bench_row(b, text, "GB/s", gb / bench_median(t->ours, t->count), peer,
                  with_peer ? gb / bench_median(t->peer, t->count) : -1, bar, err));
    snprintf(text, sizeof text, "%s, %s: CPU", what, scene_name);
    TRY(bench_row(b, text, "s/GB", bench_median(t->cpu, t->count) / gb, peer,
                  with_peer ? bench_median(t->peer_cpu, t->count) / gb : -1, "", err));
out:
    return rc;
}

static int state_path(char out[FILE_PATH_MAX], const bench *b, const char *name, ckpt_error *err)
{
    return path_join(out, b->peers, name, err);
}

static int save_state(ckpt_save_result *result, ckpt_store *store, const bench_state *state, ckpt_level level,
                      ckpt_error *err)
{
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;

    options.level = level;
    return ckpt_save_tensors(result, store, NULL, state->tensors, state->count, NULL, 0, &options, err);
}

/* A store that holds the first `count` states. */
static int store_with(ckpt_store **out, bench *b, size_t count, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    bench_state state = {0};

    TRY(bench_store_new(out, b, "timed", err));
    for (size_t i = 0; i < count; i++) {
        TRY(state_path(path, b, STATES[i], err));
        TRY(bench_state_load(&state, path, err));
        TRY(save_state(NULL, *out, &state, CKPT_LEVEL_DEFAULT, err));
        bench_state_clear(&state);
    }
out:
    bench_state_clear(&state);
    return rc;
}

/* Takes the newest checkpoint out again, so that the next round finds what this one found. */
static int forget_newest(ckpt_store *store, const char *id, ckpt_error *err)
{
    int rc = 0;
    ckpt_prune_result pruned = {0};
    const ckpt_prune_options all = {.size = sizeof all, .keep = "last 1000"};

    TRY(ckpt_remove(store, id, true, err));
    TRY(ckpt_prune(&pruned, store, &all, err));
out:
    ckpt_prune_result_clear(&pruned);
    return rc;
}

static int peer_time(double *wall, double *cpu, bench *b, const char *request, const char *path, ckpt_error *err)
{
    int rc = 0;
    double numbers[2] = {0, 0};

    if (b->peer)
        TRY(bench_peer_ask(numbers, 2, b->peer, err, "%s\t%s", request, path));
    *wall = numbers[0];
    *cpu = numbers[1];
out:
    return rc;
}

static int time_saves(bench *b, const scene *sc, ckpt_store **store, const bench_state *state, ckpt_error *err)
{
    int rc = 0;
    timings t = {0};
    char peer_file[FILE_PATH_MAX];
    ckpt_save_result saved = {0};

    TRY(path_join(peer_file, b->scratch, "peer.pt", err));
    for (unsigned round = 0; round <= b->rounds; round++) { /* round 0 is the warm-up */
        if (round > 0 && sc->before == 0) {                 /* a keyframe needs an empty store */
            ckpt_store_close(*store);
            *store = NULL;
            TRY(store_with(store, b, 0, err));
        } else if (round > 0) {
            TRY(forget_newest(*store, saved.id, err));
        }
        const size_t at = round ? round - 1 : 0;
        const double cpu = bench_cpu(), start = clock_seconds();
        TRY(save_state(&saved, *store, state, sc->level, err));
        t.ours[at] = clock_seconds() - start;
        t.cpu[at] = bench_cpu() - cpu;
        TRY(peer_time(&t.peer[at], &t.peer_cpu[at], b, "save", peer_file, err));
    }
    t.count = b->rounds;
    char what[96];
    snprintf(what, sizeof what, "%s: bytes added", sc->name);
    TRY(bench_row(b, what, "of raw", (double)saved.stored_bytes / (double)saved.raw_bytes, "", -1, sc->bytes_bar, err));
    TRY(row(b, "save", sc->name, &t, state->bytes, "torch.save and fsync", sc->save_bar, err));
out:
    return rc;
}

static int time_file_restores(bench *b, const scene *sc, ckpt_store *store, uint64_t bytes, ckpt_error *err)
{
    int rc = 0;
    timings t = {.count = b->rounds};
    char out[FILE_PATH_MAX];
    const ckpt_restore_options options = {.size = sizeof options, .dir = out};

    TRY(path_join(out, b->scratch, "out", err));
    for (unsigned round = 0; round <= b->rounds; round++) {
        const size_t at = round ? round - 1 : 0;
        TRY(bench_remove_tree(b, out, err));
        const double cpu = bench_cpu(), start = clock_seconds();
        TRY(ckpt_restore_files(NULL, store, "latest", &options, err));
        t.ours[at] = clock_seconds() - start;
        t.cpu[at] = bench_cpu() - cpu;
    }
    TRY(row(b, "restore to a file with fsync", sc->name, &t, bytes, "", sc->file_bar, err));
out:
    return rc;
}

static int time_memory_restores(bench *b, const scene *sc, ckpt_store *store, const bench_state *state, ckpt_error *err)
{
    int rc = 0;
    timings t = {.count = b->rounds};
    char peer_file[FILE_PATH_MAX];

    TRY(path_join(peer_file, b->scratch, "peer.pt", err));
    for (unsigned round = 0; round <= b->rounds; round++) {
        const size_t at = round ? round - 1 : 0;
        const double cpu = bench_cpu(), start = clock_seconds();
        TRY(ckpt_restore_tensors(store, "latest", state->tensors, state->count, err)); /* memory in use: faulted */
        t.ours[at] = clock_seconds() - start;
        t.cpu[at] = bench_cpu() - cpu;
        TRY(peer_time(&t.peer[at], &t.peer_cpu[at], b, "restore", peer_file, err));
    }
    TRY(row(b, "restore into memory", sc->name, &t, state->bytes, "torch.load", sc->memory_bar, err));
out:
    return rc;
}

static int bench_scene(bench *b, const scene *sc, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    ckpt_store *store = NULL;
    bench_state state = {0};
    double bytes = 0;

    TRY(state_path(path, b, sc->timed, err));
    TRY(bench_state_load(&state, path, err));
    if (b->peer)
        TRY(bench_peer_ask(&bytes, 1, b->peer, err, "load\t%s", path));
    TRY(store_with(&store, b, sc->before, err));
    TRY(time_saves(b, sc, &store, &state, err));
    TRY(time_file_restores(b, sc, store, state.bytes, err));
    TRY(time_memory_restores(b, sc, store, &state, err));
out:
    bench_state_clear(&state);
    ckpt_store_close(store);
    return rc;
}

int bench_store(bench *b, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    double copy = 0;

    if (!bench_has_states(b)) {
        rc = error_set(err, CKPT_ENOTFOUND, "%s has no states of a training", b->peers);
        error_hint(err, "tools/bench-peers.sh makes them; --peers DIR names another folder");
        goto out;
    }
    TRY(bench_limits(b, err)); /* first: a child's peak memory counts from what this process holds when it forks */
    for (size_t i = 0; i < sizeof SCENES / sizeof *SCENES; i++)
        TRY(bench_scene(b, &SCENES[i], err));
    TRY(state_path(path, b, BENCH_STATE_LAST, err));
    TRY(bench_blocking(&copy, b, path, "blocking time of a background save", "<= 1.3 times", err));
out:
    return rc;
}

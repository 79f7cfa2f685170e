/* Bench: our figure, a peer's and their ratio, from one run.
 *
 * Peers that are Python libraries live in one warm process, spoken to a line at a time (tools/bench/peers.py, made
 * ready by tools/bench-peers.sh). What is compared is done in turn, ours then theirs, after a warm-up; medians are
 * reported. */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include "session.h"

#include "file.h"
#include "json_out.h"
#include "table.h"

#include <ckpt/store.h>

#define BENCH_ROUNDS_MAX 99
#define BENCH_ANSWER_MAX 4096
#define BENCH_SEEDS_MAX  99

typedef struct bench_peer bench_peer;

typedef struct bench {
    session *s;
    const char *samples; /* `bench codec DIR`; NULL otherwise */
    const char *data;    /* `bench train DIR`, absolute; NULL otherwise */
    unsigned seeds;      /* of trainings to the end whose accuracy is compared; 0: none */
    const char *peers;   /* folder of tools/bench-peers.sh */
    bench_peer *peer;    /* NULL: not there */
    char scratch[FILE_PATH_MAX];
    unsigned rounds;
    table *rows;
} bench;

/* One row: `ours` and `peer` are in `unit`; peer is negative when there is none. `bar` is the aim, in words; "" for
 * none. */
int bench_row(bench *b, const char *what, const char *unit, double ours, const char *peer_name, double peer,
              const char *bar, ckpt_error *err);

/* Areas. */
int bench_codec(bench *b, ckpt_error *err);
int bench_codec_speed(bench *b, ckpt_error *err); /* of the codec alone, on one core */
int bench_claims(bench *b, ckpt_error *err);
int bench_store(bench *b, ckpt_error *err);
int bench_limits(bench *b, ckpt_error *err); /* memory, and many checkpoints */
int bench_train(bench *b, ckpt_error *err);
/* A row: blocking time of saving the state in that file; *copy is the seconds of a plain copy. */
int bench_blocking(double *copy, bench *b, const char *path, const char *what, const char *bar, ckpt_error *err);

/* ---- bench_peer.c ---- */

/* Starts the peers' process; *out is NULL, and 0 returned, when the folder has none. */
int bench_peer_open(bench_peer **out, const char *folder, ckpt_error *err);
/* Sends a command, its words parted by tabs, and reads up to `max` numbers of the answer. */
int bench_peer_ask(double *numbers, size_t max, bench_peer *peer, ckpt_error *err, const char *request, ...)
    __attribute__((format(printf, 5, 6)));
/* The same for an answer in words. */
int bench_peer_text(char text[BENCH_ANSWER_MAX], bench_peer *peer, const char *request, ckpt_error *err);
void bench_peer_close(bench_peer *peer);

/* ---- bench_tools.c ---- */

/* CKPT_EINTERRUPTED once SIGINT or SIGTERM has come; asked between steps, so that the scratch folder is removed. */
int bench_check(ckpt_error *err);
double bench_median(double *values, size_t count); /* sorts them */
double bench_cpu(void);                            /* seconds of CPU this process has used */
/* Removes a folder and what is in it; only below the scratch folder. */
int bench_remove_tree(const bench *b, const char *path, ckpt_error *err);
/* A fresh store in scratch/NAME, opened. */
int bench_store_new(ckpt_store **out, bench *b, const char *name, ckpt_error *err);
typedef struct bench_run_result {
    double wall, cpu;
    uint64_t rss_bytes; /* peak */
} bench_run_result;
typedef struct bench_command {
    const char *dir;     /* where it runs; NULL: here */
    const char *program; /* as execvp takes it; NULL: this one */
    const char *const *words;
    const char *output; /* file for what it prints; NULL: thrown away */
} bench_command;
/* Runs a program to its end; CKPT_EIO when that is not with status 0. */
int bench_command_run(bench_run_result *out, const bench_command *c, ckpt_error *err);
/* Runs this program with arguments (ended by NULL) in `dir`; its output is thrown away. */
int bench_run(bench_run_result *out, const char *dir, const char *const *words, ckpt_error *err);

/* ---- bench_state.c ---- */

/* A state in memory, read from a file of any format. */
typedef struct bench_state {
    ckpt_tensor *tensors;
    size_t count;
    uint64_t bytes;
    ckpt_content *content; /* owns the names */
} bench_state;
int bench_state_load(bench_state *out, const char *path, ckpt_error *err);
void bench_state_clear(bench_state *state);
size_t bench_tensor_bytes(const ckpt_tensor *tensor);
void bench_state_keep(bench_state *state, const char *prefix); /* only tensors whose names begin so */
void bench_state_to_bf16(bench_state *state);                  /* its f32 tensors, rounded */
/* Has tools/bench-peers.sh made the states of a training? This is the last of them. */
#define BENCH_STATE_LAST "state_0100.pt"
#define BENCH_STATES_END "decay_0100.pt" /* what tools/bench-peers.sh makes last of all */
bool bench_has_states(const bench *b);

/* ---- bench_planes.c ---- */

int bench_zstd_size(size_t *coded, const void *data, size_t size, int level, ckpt_error *err);
/* The share of its size that a file takes when its f32 numbers are cut into byte planes and these given to zstd -3;
 * with a reference, those of the XOR with the tensors of the same names. */
int bench_planes_share(double *share, const char *path, const char *reference, ckpt_error *err);

#endif

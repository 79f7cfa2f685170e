#include "bench.h"

#include "fail.h"
#include "print.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS_DEFAULT 9

static const option OPTIONS[] = {
    {"peers", 0, OPT_DIR, "DIR", "folder made by tools/bench-peers.sh (build/peers)"},
    {"rounds", 0, OPT_COUNT, "N", "measured rounds of each row, 9 unless given"},
    {"seeds", 0, OPT_COUNT, "N", "train: also compare accuracy, of N trainings to the end"},
    {"scratch", 0, OPT_DIR, "DIR", "where to write; a new folder below it is removed at the end (.)"},
    {0},
};

static const table_column COLUMNS[] = {{"WHAT", TABLE_LEFT}, {"OURS", TABLE_RIGHT},   {"UNIT", TABLE_LEFT},
                                       {"PEER", TABLE_LEFT}, {"PEER'S", TABLE_RIGHT}, {"RATIO", TABLE_RIGHT},
                                       {"BAR", TABLE_RIGHT}};

static int row_json(const char *what, const char *unit, double ours, const char *peer_name, double peer,
                    const char *bar, ckpt_error *err)
{
    int rc = 0;
    json_t *const object = json_object();

    TRY(json_out_set(object, "what", print_json_text(what), err));
    TRY(json_out_set(object, "unit", print_json_text(unit), err));
    TRY(json_out_set(object, "ours", json_out_real(ours), err));
    TRY(json_out_set(object, "peer", *peer_name ? print_json_text(peer_name) : json_null(), err));
    TRY(json_out_set(object, "peers", peer >= 0 ? json_out_real(peer) : json_null(), err));
    TRY(json_out_set(object, "ratio", peer > 0 ? json_out_real(ours / peer) : json_null(), err));
    TRY(json_out_set(object, "bar", *bar ? print_json_text(bar) : json_null(), err));
    TRY(json_out_line(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

static void number_text(char out[UNITS_TEXT_SIZE], double value)
{
    snprintf(out, UNITS_TEXT_SIZE, value >= 100 ? "%.0f" : value >= 10 ? "%.1f" : "%.4f", value);
}

int bench_row(bench *b, const char *what, const char *unit, double ours, const char *peer_name, double peer,
              const char *bar, ckpt_error *err)
{
    int rc = 0;
    char text[UNITS_TEXT_SIZE];

    TRY(bench_check(err));
    if (b->s->json) {
        TRY(row_json(what, unit, ours, peer >= 0 ? peer_name : "", peer, bar, err));
        goto out;
    }
    TRY(table_add(b->rows, what, TABLE_PLAIN, err));
    number_text(text, ours);
    TRY(table_add(b->rows, text, TABLE_PLAIN, err));
    TRY(table_add(b->rows, unit, TABLE_PLAIN, err));
    TRY(table_add(b->rows, peer >= 0 ? peer_name : "", TABLE_PLAIN, err));
    number_text(text, peer);
    TRY(table_add(b->rows, peer >= 0 ? text : "", TABLE_PLAIN, err));
    snprintf(text, sizeof text, "%.2f", ours / peer);
    TRY(table_add(b->rows, peer > 0 ? text : "", TABLE_PLAIN, err));
    TRY(table_add(b->rows, bar, TABLE_PLAIN, err));
out:
    return rc;
}

static int scratch_make(bench *b, const char *parent, ckpt_error *err)
{
    int rc = 0;

    TRY(path_join(b->scratch, parent, "ckpt-bench.XXXXXX", err));
    if (!mkdtemp(b->scratch)) {
        b->scratch[0] = 0;
        rc = error_errno(err, errno, "make a folder in %s", parent);
    }
out:
    return rc;
}

/* The folder that an area needs beside its name. */
static int area_dir(const char **out, const struct arguments *args, const char *has, ckpt_error *err)
{
    int rc = 0;
    const char *const area = args->words[0];

    if (args->word_count != 2) {
        rc = error_set(err, CKPT_EUSAGE, "bench %s needs a folder", area);
        error_hint(err, "ckpt bench %s DIR, where DIR has %s", area, has);
        goto out;
    }
    *out = args->words[1];
out:
    return rc;
}

static int run_area(bench *b, const struct arguments *args, ckpt_error *err)
{
    int rc = 0;
    const char *const area = args->words[0];

    if (strcmp(area, "codec") == 0) {
        TRY(area_dir(&b->samples, args, "trajectory/ and trajectory-tiny/", err));
        TRY(bench_codec(b, err));
    } else if (strcmp(area, "claims") == 0) {
        TRY(area_dir(&b->samples, args, "trajectory/", err));
        TRY(bench_claims(b, err));
    } else if (strcmp(area, "store") == 0) {
        TRY(bench_store(b, err));
    } else if (strcmp(area, "train") == 0) {
        TRY(area_dir(&b->data, args, "the four IDX files of MNIST or Fashion-MNIST", err));
        TRY(bench_train(b, err));
    } else {
        rc = error_set(err, CKPT_EUSAGE, "no bench named '%s'", area);
        error_hint(err, "codec DIR, claims DIR, store, or train DIR");
    }
out:
    return rc;
}

static int cmd_bench(session *s, ckpt_error *err)
{
    int rc = 0;
    const int64_t rounds = arguments_count(&s->args, "rounds", ROUNDS_DEFAULT);
    const int64_t seeds = arguments_count(&s->args, "seeds", 0);
    const char *const scratch = arguments_text(&s->args, "scratch"), *const peers = arguments_text(&s->args, "peers");
    char words[BENCH_ANSWER_MAX];
    bench b = {.s = s, .peers = peers ? peers : "build/peers"};

    FAIL_IF(rounds < 1 || rounds > BENCH_ROUNDS_MAX, err, CKPT_EUSAGE, "--rounds is between 1 and %d",
            BENCH_ROUNDS_MAX);
    FAIL_IF(seeds > BENCH_SEEDS_MAX, err, CKPT_EUSAGE, "--seeds is at most %d", BENCH_SEEDS_MAX);
    b.rounds = (unsigned)rounds;
    b.seeds = (unsigned)seeds;
    session_catch_signals(s);
    TRY(table_new(&b.rows, COLUMNS, sizeof COLUMNS / sizeof *COLUMNS, err));
    TRY(bench_peer_open(&b.peer, b.peers, err));
    if (!b.peer)
        session_note(s, "no peers in %s (tools/bench-peers.sh makes them); ours alone", b.peers);
    else
        TRY(bench_peer_text(words, b.peer, "versions", err));
    TRY(scratch_make(&b, scratch ? scratch : ".", err));
    TRY(run_area(&b, &s->args, err));
    if (!s->json)
        TRY(table_write(stdout, b.rows, 0, s->color, err));
    if (b.peer && !s->json)
        printf("peers:%s\n", words);
out:
    bench_peer_close(b.peer);
    if (b.scratch[0]) {
        const int removed = bench_remove_tree(&b, b.scratch, rc ? NULL : err);
        rc = rc ? rc : removed;
    }
    table_free(b.rows);
    return rc;
}

const command CMD_BENCH = {
    .name = "bench",
    .args = "AREA [DIR]",
    .summary = "Measure size and speed beside other programs",
    .about =
        "Areas: `codec DIR` saves the sample checkpoints below DIR and compares the bytes added, and times the codec "
        "alone; `claims DIR` saves them with and without loss, beside what is claimed elsewhere; `store` times saving "
        "and restoring an 89 MB state, peak memory, and a store of 2,000 checkpoints; `train DIR` trains the preset "
        "mnist-cnn on the data set in DIR, for speed, memory and what saving costs. Peers run in the same run, "
        "in turn with ours; medians are printed. tools/bench-peers.sh makes the folder of peers.",
    .examples = "ckpt bench codec samples\tbytes added for neighbouring checkpoints\n"
                "ckpt bench store --peers build/peers\tspeed against torch.save and torch.load\n"
                "ckpt bench train /usr/share/datasets/fashion-mnist --seeds 5\tagainst PyTorch, accuracy too\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 3, 4, 5, 10, 130),
    .words_min = 1,
    .words_max = 2,
    .group = GROUP_ABOUT,
    .run = cmd_bench,
};

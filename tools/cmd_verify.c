#define _GNU_SOURCE /* strptime */
#include "clock.h"
#include "output.h"
#include "print.h"
#include "session.h"

#include "fail.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

static const option OPTIONS[] = {
    {"read", 0, OPT_FLAG, NULL, "also read every pack and check its SHA-256"},
    {"full", 0, OPT_FLAG, NULL, "also decode every file of every checkpoint and check its SHA-256"},
    {"continue", 0, OPT_FLAG, NULL,
     "with --read or --full: leave out what the last one, which was stopped, found good"},
    {"since", 0, OPT_TEXT, "NAME|TIME", "only checkpoints from this one on, or from a time: 6h, 2d, 2026-11-30"},
    {"sample", 0, OPT_TEXT, "SHARE", "instead decode so large a share of all chunks, as 5%, chosen at random"},
    {"seed", 0, OPT_COUNT, "N", "choose the chunks that an earlier --sample chose"},
    {0},
};

static const char *const LEVEL_NAMES[] = {
    [CKPT_VERIFY_NAMES] = "names", [CKPT_VERIFY_READ] = "read", [CKPT_VERIFY_FULL] = "full"};

/* Most faults are tensors that one pack hurts in one checkpoint: some of them show what it is about. */
#define FAULTS_SHOWN_MAX 4

static void print_subject(const ckpt_verify_fault *fault)
{
    if (*fault->checkpoint)
        printf("checkpoint %.*s: ", PRINT_ID_DIGITS, fault->checkpoint);
}

static void print_fault(const ckpt_verify_fault *fault)
{
    char pack[PRINT_ID_DIGITS + 1];

    print_subject(fault);
    if (*fault->pack && !strstr(fault->what, print_id(pack, fault->pack)))
        printf("pack %s: ", pack);
    output_text(stdout, fault->what);
    fputc('\n', stdout);
}

static bool is_of_the_same(const ckpt_verify_fault *a, const ckpt_verify_fault *b)
{
    return *a->checkpoint && strcmp(a->checkpoint, b->checkpoint) == 0 && strcmp(a->pack, b->pack) == 0;
}

/* Faults of one checkpoint by one pack stand beside each other. */
static void print_group(size_t *next, const ckpt_verify_result *found)
{
    const ckpt_verify_fault *const first = &found->faults[*next];
    size_t count = 0;

    for (; *next < found->fault_count && is_of_the_same(first, &found->faults[*next]); (*next)++)
        if (count++ < FAULTS_SHOWN_MAX)
            print_fault(&found->faults[*next]);
    if (!count)
        print_fault(&found->faults[(*next)++]);
    if (count > FAULTS_SHOWN_MAX) {
        print_subject(first);
        printf("%zu more; --json lists all\n", count - FAULTS_SHOWN_MAX);
    }
}

/* How far one that was stopped came. */
static void print_stop(const ckpt_verify_result *found, ckpt_verify_level level)
{
    char packs[UNITS_TEXT_SIZE], files[UNITS_TEXT_SIZE];

    printf("stopped: %s read, %s decoded and found good\n",
           print_count(packs, found->packs_read + found->skipped_packs, "pack"),
           print_count(files, found->files_decoded + found->skipped_files, "file"));
    if (level != CKPT_VERIFY_NAMES)
        printf("`ckpt verify --%s --continue` goes on from there\n", LEVEL_NAMES[level]);
}

static void print_faults(const ckpt_verify_result *found, ckpt_verify_level level, bool quiet, double seconds)
{
    char checkpoints[UNITS_TEXT_SIZE], packs[UNITS_TEXT_SIZE], bytes[UNITS_TEXT_SIZE], faults[UNITS_TEXT_SIZE],
        time[UNITS_TEXT_SIZE];

    for (size_t i = 0; i < found->fault_count;)
        print_group(&i, found);
    if (!quiet)
        printf("%s, %s, %s read, %s: %s%s\n", print_count(checkpoints, found->checkpoints, "checkpoint"),
               print_count(packs, found->packs, "pack"), print_size(bytes, found->bytes_read),
               print_seconds(time, seconds),
               found->fault_count ? print_count(faults, found->fault_count, "fault") : "no fault",
               level == CKPT_VERIFY_NAMES && !found->seed ? " (names and sizes only; --full decodes everything)" : "");
    if (!quiet && found->seed)
        printf("a sample of %s was decoded; --seed %" PRIu64 " chooses it again\n",
               print_count(packs, found->chunks, "chunk"), found->seed);
    if (!quiet && (found->skipped_packs || found->skipped_files))
        printf("%s and %s were found good before\n", print_count(packs, found->skipped_packs, "pack"),
               print_count(bytes, found->skipped_files, "file"));
}

static int print_json(const ckpt_verify_result *found, ckpt_verify_level level, bool complete, double seconds,
                      ckpt_error *err)
{
    int rc = 0;
    json_t *object = json_object(), *faults;

    TRY(json_out_set(object, "level", print_json_text(LEVEL_NAMES[level]), err));
    TRY(json_out_set(object, "checkpoints", json_out_count(found->checkpoints), err));
    TRY(json_out_set(object, "packs", json_out_count(found->packs), err));
    TRY(json_out_set(object, "bytes_read", json_out_count(found->bytes_read), err));
    TRY(json_out_set(object, "packs_read", json_out_count(found->packs_read), err));
    TRY(json_out_set(object, "files_decoded", json_out_count(found->files_decoded), err));
    TRY(json_out_set(object, "skipped_packs", json_out_count(found->skipped_packs), err));
    TRY(json_out_set(object, "skipped_files", json_out_count(found->skipped_files), err));
    TRY(json_out_set(object, "seed", found->seed ? json_out_count(found->seed) : json_null(), err));
    TRY(json_out_set(object, "chunks", json_out_count(found->chunks), err));
    TRY(json_out_set(object, "complete", json_boolean(complete), err));
    TRY(json_out_set(object, "seconds", json_out_real(seconds), err));
    faults = json_array();
    TRY(json_out_set(object, "faults", faults, err));
    for (size_t i = 0; i < found->fault_count; i++) {
        const ckpt_verify_fault *fault = &found->faults[i];
        json_t *row = json_object();
        TRY(json_out_append(faults, row, err));
        TRY(json_out_set(row, "checkpoint", *fault->checkpoint ? print_json_text(fault->checkpoint) : json_null(),
                         err));
        TRY(json_out_set(row, "pack", *fault->pack ? print_json_text(fault->pack) : json_null(), err));
        TRY(json_out_set(row, "what", print_json_text(fault->what), err));
    }
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

/* "2026-11-30", "2026-11-30 12:01": local time, as the program prints it. */
static bool date_read(int64_t *out, const char *text)
{
    static const char *const FORMATS[] = {"%Y-%m-%d", "%Y-%m-%d %H:%M"};

    for (size_t i = 0; i < sizeof(FORMATS) / sizeof(FORMATS[0]); i++) {
        struct tm parts = {.tm_isdst = -1};
        const char *const end = strptime(text, FORMATS[i], &parts);
        if (end && !*end) {
            *out = (int64_t)mktime(&parts);
            return *out > 0;
        }
    }
    return false;
}

/* A name of a checkpoint, or else how long ago or when. */
static int since_read(ckpt_verify_options *options, const session *s, const char *text, ckpt_error *err)
{
    int rc = 0;
    char id[CKPT_ID_SIZE];
    uint64_t seconds;

    rc = ckpt_find(id, s->store, text, err);
    if (rc == 0) {
        options->since = text;
        goto out;
    }
    if (parse_duration(&seconds, text, NULL) == 0)
        options->since_time = (int64_t)time(NULL) - (int64_t)seconds;
    else if (!date_read(&options->since_time, text)) {
        if (rc != CKPT_ENOTFOUND)
            goto out;
        rc = error_set(err, rc, "`%s` is neither a checkpoint nor a time", text);
        error_hint(err, "`ckpt log` lists the checkpoints; a time is 6h, 2d or 2026-11-30");
        goto out;
    }
    rc = error_clear(err);
out:
    return rc;
}

static int options_read(ckpt_verify_options *options, const session *s, ckpt_error *err)
{
    int rc = 0;
    const arguments *const args = &s->args;
    const char *const sample = arguments_text(args, "sample"), *const since = arguments_text(args, "since");

    *options = (ckpt_verify_options){.size = sizeof *options, .proceed = arguments_flag(args, "continue")};
    options->level = arguments_flag(args, "full")   ? CKPT_VERIFY_FULL
                     : arguments_flag(args, "read") ? CKPT_VERIFY_READ
                                                    : CKPT_VERIFY_NAMES;
    options->seed = (uint64_t)arguments_count(args, "seed", 0);
    TRY(arguments_share(&options->sample, args, "sample", err));
    FAIL_IF(sample && options->level != CKPT_VERIFY_NAMES, err, CKPT_EUSAGE,
            "--sample stands in the place of --read and --full");
    FAIL_IF(options->seed && !sample, err, CKPT_EUSAGE, "--seed needs --sample");
    FAIL_IF(options->proceed && options->level == CKPT_VERIFY_NAMES, err, CKPT_EUSAGE,
            "--continue needs --read or --full");
    if (since)
        TRY(since_read(options, s, since, err));
out:
    return rc;
}

static int cmd_verify(session *s, ckpt_error *err)
{
    int rc = 0;
    ckpt_verify_result found = {0};
    ckpt_verify_options options;
    double begin = clock_seconds();

    TRY(session_open(s, err));
    TRY(options_read(&options, s, err));
    session_work_begin(s, "verify");
    const int verify_rc = ckpt_verify(&found, s->store, &options, err);
    session_work_end(s);
    const bool stopped = verify_rc == CKPT_EINTERRUPTED;
    if (verify_rc && !found.fault_count && !stopped) {
        rc = verify_rc;
        goto out;
    }
    if (s->json)
        TRY(print_json(&found, options.level, !stopped, clock_seconds() - begin, err));
    else
        print_faults(&found, options.level, s->quiet, clock_seconds() - begin);
    if (stopped && !s->json && !s->quiet)
        print_stop(&found, options.level);
    rc = verify_rc;
out:
    ckpt_verify_result_clear(&found);
    return rc;
}

const command CMD_VERIFY = {
    .name = "verify",
    .args = "",
    .summary = "Check that nothing is damaged",
    .about =
        "Without an option it checks names, sizes and indexes, which takes seconds. A fault is told with the "
        "checkpoint and the tensors it hurts; of many that one pack hurts in a checkpoint the first are shown, and all "
        "with --json. --read also looks at the parity that packs may have.\n\n"
        "One that is stopped says how far it came; with --continue the next one goes on from there, even when the "
        "machine was lost meanwhile. Packs that have changed since then are read again.",
    .examples = "ckpt verify\ta quick look\n"
                "ckpt verify --sample 5%\ta part of everything, another one each time\n"
                "ckpt verify --full --since 2d\twhat was saved since the day before yesterday\n"
                "ckpt verify --full\tproof that every file of every checkpoint restores\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 3, 4, 9, 10, 130),
    .group = GROUP_CARE,
    .run = cmd_verify,
};

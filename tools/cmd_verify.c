#include "output.h"
#include "print.h"
#include "session.h"

#include "fail.h"

static const option OPTIONS[] = {
    {"read", 0, OPT_FLAG, NULL, "also read every pack and check its SHA-256"},
    {"full", 0, OPT_FLAG, NULL, "also decode every file of every checkpoint and check its SHA-256"},
    {0},
};

static const char *const LEVEL_NAMES[] = {
    [CKPT_VERIFY_NAMES] = "names", [CKPT_VERIFY_READ] = "read", [CKPT_VERIFY_FULL] = "full"};

static void print_fault(const ckpt_verify_fault *fault)
{
    if (*fault->checkpoint)
        printf("checkpoint %.*s: ", PRINT_ID_DIGITS, fault->checkpoint);
    if (*fault->pack)
        printf("pack %.*s: ", PRINT_ID_DIGITS, fault->pack);
    output_text(stdout, fault->what);
    fputc('\n', stdout);
}

static void print_faults(const ckpt_verify_result *found, ckpt_verify_level level, bool quiet, double seconds)
{
    char checkpoints[UNITS_TEXT_SIZE], packs[UNITS_TEXT_SIZE], bytes[UNITS_TEXT_SIZE], faults[UNITS_TEXT_SIZE],
        time[UNITS_TEXT_SIZE];

    for (size_t i = 0; i < found->fault_count; i++)
        print_fault(&found->faults[i]);
    if (!quiet)
        printf("%s, %s, %s read, %s: %s%s\n", print_count(checkpoints, found->checkpoints, "checkpoint"),
               print_count(packs, found->packs, "pack"), print_size(bytes, found->bytes_read),
               print_seconds(time, seconds),
               found->fault_count ? print_count(faults, found->fault_count, "fault") : "no fault",
               level == CKPT_VERIFY_NAMES ? " (names and sizes only; --full decodes everything)" : "");
}

static int print_json(const ckpt_verify_result *found, ckpt_verify_level level, double seconds, ckpt_error *err)
{
    int rc = 0;
    json_t *object = json_object(), *faults;

    TRY(json_out_set(object, "level", print_json_text(LEVEL_NAMES[level]), err));
    TRY(json_out_set(object, "checkpoints", json_out_count(found->checkpoints), err));
    TRY(json_out_set(object, "packs", json_out_count(found->packs), err));
    TRY(json_out_set(object, "bytes_read", json_out_count(found->bytes_read), err));
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

static int cmd_verify(session *s, ckpt_error *err)
{
    int rc = 0;
    ckpt_verify_result found = {0};
    const ckpt_verify_level level = arguments_flag(&s->args, "full")   ? CKPT_VERIFY_FULL
                                    : arguments_flag(&s->args, "read") ? CKPT_VERIFY_READ
                                                                       : CKPT_VERIFY_NAMES;
    const ckpt_verify_options options = {.size = sizeof options, .level = level};
    double begin = print_clock();

    TRY(session_open(s, err));
    session_work_begin(s, "verify");
    int verify_rc = ckpt_verify(&found, s->store, &options, err);
    session_work_end(s);
    if (verify_rc && !found.fault_count) {
        rc = verify_rc;
        goto out;
    }
    if (s->json)
        TRY(print_json(&found, level, print_clock() - begin, err));
    else
        print_faults(&found, level, s->quiet, print_clock() - begin);
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
        "Without an option it checks names, sizes and indexes, which takes seconds. Each fault is a line that names "
        "the checkpoint and the tensors it hurts.",
    .examples = "ckpt verify\ta quick look\n"
                "ckpt verify --full\tproof that every file of every checkpoint restores\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 3, 4, 9, 10, 130),
    .group = GROUP_CARE,
    .run = cmd_verify,
};

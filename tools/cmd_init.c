#include "output.h"
#include "policy.h"
#include "print.h"
#include "session.h"

#include "fail.h"

#include <stdlib.h>

static const option OPTIONS[] = {
    {"quota", 0, OPT_TEXT, "SIZE", "the most that the store may take, as 4G; 0 for no limit"},
    {"keep", 0, OPT_TEXT, "POLICY", "what `ckpt prune` keeps, and saves that lack room; see `ckpt help prune`"},
    {"parity", 0, OPT_TEXT, "SHARE", "let each save write so much parity, as 5%, for `ckpt repair`; 0% for none"},
    {0},
};

static int print_json(const session *s, bool existed, const char *keep, const char *best, const ckpt_usage *usage,
                      ckpt_error *err)
{
    int rc = 0;
    json_t *object = json_object();

    TRY(json_out_set(object, "store", print_json_text(ckpt_store_path(s->store)), err));
    TRY(json_out_set(object, "existed", json_boolean(existed), err));
    TRY(json_out_set(object, "keep", keep ? print_json_text(keep) : json_null(), err));
    TRY(json_out_set(object, "best", best ? print_json_text(best) : json_null(), err));
    TRY(json_out_set(object, "quota_bytes", print_json_quota(usage), err));
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

/* What options say goes into config.ini. */
static int settings_set(session *s, ckpt_error *err)
{
    static const char *const KEYS[] = {"parity", "quota", "keep"};
    int rc = 0;

    for (size_t i = 0; i < sizeof(KEYS) / sizeof(KEYS[0]); i++) {
        const char *const value = arguments_text(&s->args, KEYS[i]);
        if (value)
            TRY(ckpt_setting_set(s->store, KEYS[i], value, err));
    }
out:
    return rc;
}

static int cmd_init(session *s, ckpt_error *err)
{
    int rc = 0;
    ckpt_usage usage;
    bool existed = false;
    char *keep = NULL, *best = NULL;
    const char *const parity = arguments_text(&s->args, "parity");
    double share;
    uint64_t bytes;
    char quota[UNITS_TEXT_SIZE], taken[UNITS_TEXT_SIZE];
    const char *dir = s->args.word_count ? s->args.words[0] : s->store_path ? s->store_path : ".";

    TRY(arguments_share(&share, &s->args, "parity", err));
    if (arguments_text(&s->args, "quota"))
        TRY(parse_size(&bytes, arguments_text(&s->args, "quota"), err));
    if (arguments_text(&s->args, "keep"))
        TRY(ckpt_policy_check(arguments_text(&s->args, "keep"), err));
    TRY(ckpt_store_init(&existed, dir, err));
    s->store_path = dir;
    TRY(session_open(s, err));
    TRY(settings_set(s, err));
    TRY(ckpt_usage_get(&usage, s->store, err));
    TRY(policy_read(&keep, &best, s->store, err));
    if (s->json)
        TRY(print_json(s, existed, keep, best, &usage, err));
    else if (!s->quiet) {
        fputs(existed ? "store was there already: " : "store made: ", stdout);
        output_text(stdout, ckpt_store_path(s->store));
        if (usage.quota_bytes)
            printf("\nquota: %s, of which %s are taken", print_size(quota, usage.quota_bytes),
                   print_size(taken, usage.store_bytes));
        printf("\nprune keeps: ");
        output_text(stdout, keep ? keep : "everything");
        printf("\nbest = ");
        output_text(stdout, best ? best : "(not set)");
        printf("; change it in ");
        output_text(stdout, ckpt_store_path(s->store));
        printf("/config.ini");
        if (parity && share > 0)
            printf("\nparity of each pack: %s, from which `ckpt repair` rebuilds it", parity);
        printf("\nnext: `ckpt save PATH...` keeps the files of a training\n");
    }
out:
    free(best);
    free(keep);
    return rc;
}

const command CMD_INIT = {
    .name = "init",
    .args = "[DIR]",
    .summary = "Make a store",
    .about = "Makes the folder .ckpt in DIR, or here without DIR. Its config.ini begins with a retention policy that "
             "fits a disk of 5 GB; `ckpt prune` applies it, and a save for which quota or disk leave too little "
             "room, if that makes enough; else the save is refused. A store that is there already is left as it is, "
             "but for what an option sets.",
    .options = OPTIONS,
    .examples = "ckpt init\there\n"
                "ckpt init --quota 4G\ton a disk of 5 GB; again, to change it\n"
                "ckpt init --parity 5%\tpacks that can be rebuilt when a disk loses up to 5 % of them\n"
                "ckpt init /data/runs\tin another folder\n",
    .exits = EXITS(0, 2, 5, 9, 10),
    .words_max = 1,
    .group = GROUP_START,
    .completes = COMPLETES_PATHS,
    .run = cmd_init,
};

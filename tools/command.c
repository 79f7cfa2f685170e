#include "command.h"

#include "fail.h"
#include "word.h"

#include <string.h>

#define COMMANDS_MAX 64

extern const command CMD_INIT, CMD_SAVE, CMD_WATCH, CMD_RESTORE, CMD_EXPORT, CMD_IMPORT, CMD_LOG, CMD_SHOW, CMD_DIFF,
    CMD_STATS, CMD_TAG, CMD_RM, CMD_PRUNE, CMD_GC, CMD_VERIFY, CMD_REPAIR, CMD_TRAIN, CMD_RESUME, CMD_EVAL, CMD_PREDICT,
    CMD_BENCH, CMD_HELP, CMD_VERSION, CMD_COMPLETION, CMD_MAN;

const command *const COMMANDS[] = {&CMD_INIT,  &CMD_SAVE,    &CMD_WATCH,  &CMD_RESTORE, &CMD_EXPORT,  &CMD_IMPORT,
                                   &CMD_LOG,   &CMD_SHOW,    &CMD_DIFF,   &CMD_STATS,   &CMD_TAG,     &CMD_RM,
                                   &CMD_PRUNE, &CMD_GC,      &CMD_VERIFY, &CMD_REPAIR,  &CMD_TRAIN,   &CMD_RESUME,
                                   &CMD_EVAL,  &CMD_PREDICT, &CMD_BENCH,  &CMD_HELP,    &CMD_VERSION, &CMD_COMPLETION,
                                   &CMD_MAN,   NULL};

const option GLOBAL_OPTIONS[] = {
    {"store", 's', OPT_DIR, "STORE",
     "the store: a .ckpt folder or its parent; else CKPT_STORE, else the nearest upwards", PLACE_ANYWHERE_LONG},
    {"quiet", 'q', OPT_FLAG, NULL, "print errors only", PLACE_ANYWHERE},
    {"json", 0, OPT_FLAG, NULL, "print JSON: raw bytes, seconds, full ids", PLACE_ANYWHERE},
    {"jobs", 'j', OPT_COUNT, "N", "use N threads, at most 64; else CKPT_THREADS, else what this process may use",
     PLACE_FIRST},
    {"no-color", 0, OPT_FLAG, NULL, "never use colour; NO_COLOR says the same", PLACE_FIRST},
    {"version", 0, OPT_FLAG, NULL, "same as `ckpt version`", PLACE_FIRST},
    {"help", 'h', OPT_FLAG, NULL, "same as `ckpt help`", PLACE_ANYWHERE},
    {0},
};

const exit_status EXIT_STATUSES[] = {
    {0, "done"},
    {1, "differences were found"},
    {2, "wrong usage, or --yes is missing"},
    {3, "data are damaged"},
    {4, "not found"},
    {5, "no space, on the disk or in the quota"},
    {7, "stopped with its state saved; go on later"},
    {8, "busy: another process is at work on the store"},
    {9, "a feature is missing, or the store is newer than this program"},
    {10, "input or output failed"},
    {70, "a bug in ckpt; please report it"},
    {130, "interrupted"},
    {0, NULL},
};

const command *command_find(const char *name)
{
    for (const command *const *row = COMMANDS; *row; row++)
        if (strcmp((*row)->name, name) == 0)
            return *row;
    return NULL;
}

/* What other programs call our commands. */
static const char *other_word(const char *name)
{
    static const struct {
        const char *other, *ours;
    } WORDS[] = {{"ls", "log"},      {"list", "log"}, {"history", "log"}, {"checkout", "restore"}, {"load", "restore"},
                 {"commit", "save"}, {"add", "save"}, {"remove", "rm"},   {"gc", "prune"},         {"fsck", "verify"}};
    for (size_t i = 0; i < sizeof(WORDS) / sizeof(WORDS[0]); i++)
        if (strcmp(name, WORDS[i].other) == 0)
            return WORDS[i].ours;
    return NULL;
}

int command_unknown(const char *name, ckpt_error *err)
{
    const char *list[COMMANDS_MAX + 1];
    size_t count = 0;
    int rc = error_set(err, CKPT_EUSAGE, "unknown command %s", name);

    for (const command *const *row = COMMANDS; *row && count < COMMANDS_MAX; row++)
        list[count++] = (*row)->name;
    list[count] = NULL;
    const char *nearest = other_word(name);
    if (!nearest)
        nearest = word_nearest(name, list);
    if (nearest)
        error_hint(err, "did you mean `ckpt %s`?", nearest);
    else
        error_hint(err, "`ckpt help` lists all commands");
    return rc;
}

const char *command_group_title(command_group group)
{
    static const char *const TITLES[GROUP_COUNT] = {"Keep and get back", "Look", "Care", "Training", "About"};
    return TITLES[group];
}

const char *exit_status_meaning(unsigned char status, const command *c)
{
    if (status == 2 && !option_find(c->options, "yes"))
        return "wrong usage";
    if (status == 1 && c->group == GROUP_TRAINING)
        return "NaN or infinity came up; the last good checkpoint is kept";
    const exit_status *row = EXIT_STATUSES;
    while (row->meaning && row->status != status)
        row++;
    return row->meaning;
}

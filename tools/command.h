/* Commands: each is a table row and a short story.
 *
 * Help, man pages and completion are made from the row, so a command is added by one file cmd_NAME.c with its row and
 * one line in command.c. */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

#include "option.h"

struct session;

/* Headings of the overview, in its order. */
typedef enum command_group {
    GROUP_START,
    GROUP_LOOK,
    GROUP_CARE,
    GROUP_TRAINING,
    GROUP_ABOUT,
    GROUP_COUNT
} command_group;

/* What the shell offers for a word of the command line. */
typedef enum completes {
    COMPLETES_NOTHING = 0,
    COMPLETES_PATHS,
    COMPLETES_NAMES, /* tags, latest, best */
    COMPLETES_NAMES_AND_PATHS,
    COMPLETES_COMMANDS,
    COMPLETES_SHELLS
} completes;

#define EXITS_END    255
#define EXITS(...)   ((const unsigned char[]){__VA_ARGS__, EXITS_END})
#define WORDS_NO_MAX ((unsigned)-1)

typedef struct command {
    const char *name;
    const char *args;     /* as help shows them: "PATH..." */
    const char *summary;  /* one line, a capital first, no full stop */
    const char *about;    /* paragraphs for help and man page, parted by an empty line */
    const char *examples; /* "command line\twhat it does\n" each */
    const option *options;
    const unsigned char *exits; /* statuses of its own; see exit_statuses */
    unsigned words_min, words_max;
    command_group group;
    completes completes;
    int (*run)(struct session *s, ckpt_error *err);
} command;

extern const command *const COMMANDS[]; /* in the order of the overview, ended by NULL */
extern const option GLOBAL_OPTIONS[];

typedef struct exit_status {
    unsigned char status;
    const char *meaning;
} exit_status;
extern const exit_status EXIT_STATUSES[]; /* ended by one without a meaning */

const command *command_find(const char *name); /* NULL: none of that name */
/* CKPT_EUSAGE, naming the nearest command. */
int command_unknown(const char *name, ckpt_error *err);
const char *command_group_title(command_group group);
/* As the command means it: --yes can be missing only where it is an option. */
const char *exit_status_meaning(unsigned char status, const command *c);

#endif

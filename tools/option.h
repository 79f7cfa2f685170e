/* Options: table rows, and the parser of a command line that follows them.
 *
 * A row is all there is to know of an option; help, man pages and completion are made from it:
 *
 *     static const option OPTIONS[] = {
 *         {"message", 'm', OPT_TEXT,  "TEXT", "say what this checkpoint is"},
 *         {"step",     0,  OPT_COUNT, "N",    "training step, for `step:N`"},
 *         {0}};
 *
 * Accepted: `--step 5`, `--step=5`, `-m TEXT`, `-mTEXT`, flags together as in `-qy`; `--` ends options; options and
 * words may stand in any order. An option with a value may be given once, but for OPT_PAIR and OPT_LIST, which collect.
 */
#ifndef TOOLS_OPTION_H
#define TOOLS_OPTION_H

#include <ckpt/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPTION_WORDS_MAX 100000 /* arguments on one command line */

typedef enum option_kind {
    OPT_FLAG,
    OPT_TEXT,
    OPT_COUNT, /* a whole number from 0 */
    OPT_PAIR,  /* KEY=VALUE, may be given several times */
    OPT_LIST,  /* text that is not empty, may be given several times */
    OPT_DIR,   /* a folder */
    OPT_CHOICE /* one word of the value column: "name|change|size" */
} option_kind;

/* Where an option of the whole program may stand; options of a command always stand behind its word. */
typedef enum option_place { PLACE_FIRST = 0, PLACE_ANYWHERE_LONG, PLACE_ANYWHERE } option_place;

typedef struct option {
    const char *name; /* without the dashes; NULL ends a table */
    char letter;      /* 0: none */
    option_kind kind;
    const char *value; /* how help calls the value; NULL for flags */
    const char *help;
    option_place place; /* of global options */
} option;

typedef struct option_given {
    const option *row;
    const char *text; /* "" for flags */
    int64_t count;    /* OPT_COUNT */
} option_given;

/* What a command line said. Strings belong to argv. */
typedef struct arguments {
    option_given *given;
    size_t given_count;
    const char **words; /* what is not an option, ended by NULL */
    size_t word_count;
} arguments;

/* Which rows a stretch of the command line may use. */
typedef struct option_syntax {
    const char *command;   /* for messages; NULL before the command word */
    const option *rows;    /* the command's own; may be NULL */
    const option *globals; /* before the command word all of them, behind it those that may stand anywhere */
} option_syntax;

/* Adds what argv[0 .. argc) says to `out`, which starts zeroed. Before the command word (syntax->command NULL) it stops
 * at the first word. *used is how many were read. CKPT_EUSAGE names the nearest option that exists. */
int arguments_parse(arguments *out, int *used, const option_syntax *syntax, int argc, char *const *argv,
                    ckpt_error *err);
void arguments_clear(arguments *args);

/* The row of that name in a table, which may be NULL; NULL without one. */
const option *option_find(const option *rows, const char *name);

/* Asking what was given; `name` must be in a table that was parsed with. */
bool arguments_flag(const arguments *args, const char *name);
const char *arguments_text(const arguments *args, const char *name); /* NULL: not given */
int64_t arguments_count(const arguments *args, const char *name, int64_t otherwise);
/* A share such as "5%", as 0.05; 0 when it was not given. CKPT_EUSAGE. */
int arguments_share(double *out, const arguments *args, const char *name, ckpt_error *err);
/* The i-th value of an OPT_PAIR or OPT_LIST; NULL past the last. */
const char *arguments_pair(const arguments *args, const char *name, size_t i);
/* All values of an OPT_LIST; malloc'ed. */
int arguments_list(const char ***out, size_t *count, const arguments *args, const char *name, ckpt_error *err);

#endif

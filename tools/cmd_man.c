/* Man pages in roff (man macros), from the same rows as help; the package is built with them. */
#include "help.h"
#include "session.h"

#include <ctype.h>
#include <string.h>

/* Roff reads a backslash, a quote at the start of a line and a minus specially. Text between backquotes is bold. */
static void roff_text(const char *text)
{
    bool bold = false, line_start = true;
    for (; *text; text++) {
        if (*text == '`') {
            bold = !bold;
            fputs(bold ? "\\fB" : "\\fR", stdout);
        } else if (*text == '\\') {
            fputs("\\e", stdout);
        } else if (*text == '-') {
            fputs("\\-", stdout);
        } else if (text[0] == '\n' && text[1] == '\n') {
            fputs("\n.PP\n", stdout);
            text++;
            line_start = true;
            continue;
        } else {
            if (line_start && (*text == '.' || *text == '\''))
                fputs("\\&", stdout);
            fputc(*text, stdout);
        }
        line_start = *text == '\n';
    }
}

static void roff_options(const option *rows)
{
    for (; rows && rows->name; rows++) {
        fputs(".TP\n", stdout);
        if (rows->letter)
            printf("\\fB\\-%c\\fR, ", rows->letter);
        fputs("\\fB\\-\\-", stdout);
        roff_text(rows->name);
        fputs("\\fR", stdout);
        if (rows->value)
            printf(" \\fI%s\\fR", rows->value);
        fputc('\n', stdout);
        roff_text(rows->help);
        fputc('\n', stdout);
    }
}

/* Those of a command; NULL: all. */
static void roff_exits(const command *c)
{
    const unsigned char *const statuses = c ? c->exits : NULL;
    fputs(".SH EXIT STATUS\n", stdout);
    for (const exit_status *row = EXIT_STATUSES; row->meaning; row++) {
        const unsigned char *status = statuses;
        while (status && *status != EXITS_END && *status != row->status)
            status++;
        if (!status || *status == row->status) {
            printf(".TP\n%u\n", row->status);
            roff_text(c ? exit_status_meaning(row->status, c) : row->meaning);
            fputc('\n', stdout);
        }
    }
}

static void roff_examples(const char *examples)
{
    fputs(".SH EXAMPLES\n", stdout);
    while (*examples) {
        size_t command_length = strcspn(examples, "\t"), line = strcspn(examples, "\n");
        char text[256];
        snprintf(text, sizeof(text), "`%.*s`", (int)command_length, examples);
        fputs(".TP\n", stdout);
        roff_text(text);
        snprintf(text, sizeof(text), "%.*s", (int)(line - command_length - 1), examples + command_length + 1);
        fputc('\n', stdout);
        roff_text(text);
        fputc('\n', stdout);
        examples += line + (examples[line] == '\n');
    }
}

static void roff_title(const char *title)
{
    fputs(".TH ", stdout);
    for (; *title; title++)
        fputc(toupper((unsigned char)*title), stdout);
    printf(" 1 \"\" \"ckpt %s\" \"User Commands\"\n.SH NAME\n", ckpt_version());
}

static void roff_synopsis(const command *c)
{
    printf("\\fBckpt %s\\fR%s ", c->name, c->options ? " [\\fIOPTION\\fR]..." : "");
    roff_text(c->args);
    fputc('\n', stdout);
}

/* Every command with its options, so that one page has all. */
static void roff_overview(void)
{
    roff_title("ckpt");
    fputs("ckpt \\- keep every checkpoint of a training in a fraction of the space, bit\\-exact\n"
          ".SH SYNOPSIS\n\\fBckpt\\fR [\\fIOPTION\\fR]... \\fICOMMAND\\fR [\\fIARGUMENT\\fR]...\n"
          ".SH COMMANDS\n",
          stdout);
    for (const command *const *row = COMMANDS; *row; row++) {
        fputs(".SS ", stdout);
        roff_synopsis(*row);
        roff_text((*row)->summary);
        fputs(".\n", stdout);
        if ((*row)->about) {
            fputs(".PP\n", stdout);
            roff_text((*row)->about);
            fputc('\n', stdout);
        }
        roff_options((*row)->options);
    }
    fputs(".SH OPTIONS\nThey stand before the command; \\-\\-store, \\-\\-json and \\-q may stand anywhere.\n", stdout);
    roff_options(GLOBAL_OPTIONS);
    fputs(".SH NAMES OF CHECKPOINTS\n"
          "A tag, \\fBlatest\\fR, \\fBbest\\fR, \\fBstep:\\fIN\\fR, or the beginning of an id; each with "
          "\\fB~\\fIN\\fR for N before it.\n"
          ".SH ENVIRONMENT\n.TP\n.B CKPT_STORE\nThe store, where \\-\\-store does not say.\n"
          ".TP\n.B CKPT_THREADS\nThreads, where \\-j does not say.\n.TP\n.B NO_COLOR\nNever use colour.\n",
          stdout);
    roff_exits(NULL);
}

static void roff_command(const command *c)
{
    char title[64];
    snprintf(title, sizeof(title), "ckpt-%s", c->name);
    roff_title(title);
    printf("ckpt\\-%s \\- ", c->name);
    roff_text(c->summary);
    fputs("\n.SH SYNOPSIS\n", stdout);
    roff_synopsis(c);
    fputs(".SH DESCRIPTION\n", stdout);
    roff_text(c->about ? c->about : c->summary);
    fputc('\n', stdout);
    if (c->options) {
        fputs(".SH OPTIONS\n", stdout);
        roff_options(c->options);
    }
    if (c->examples)
        roff_examples(c->examples);
    roff_exits(c);
    fputs(".SH SEE ALSO\n.BR ckpt (1)\n", stdout);
}

static int cmd_man(session *s, ckpt_error *err)
{
    if (!s->args.word_count) {
        roff_overview();
        return 0;
    }
    const command *c = command_find(s->args.words[0]);
    if (!c)
        return command_unknown(s->args.words[0], err);
    roff_command(c);
    return 0;
}

const command CMD_MAN = {
    .name = "man",
    .args = "[COMMAND]",
    .summary = "Print a man page",
    .about = "The page comes in the language of man pages, made from what `ckpt help` knows. Without COMMAND it is the "
             "page of the whole program.",
    .examples = "ckpt man save | man -l -\tread it here\n"
                "ckpt man save > ckpt-save.1\tkeep it for a package\n",
    .exits = EXITS(0, 2),
    .words_max = 1,
    .group = GROUP_ABOUT,
    .completes = COMPLETES_COMMANDS,
    .run = cmd_man,
};

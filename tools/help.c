#include "help.h"

#include "session.h"

#include "fail.h"

#include <string.h>

#define OPTION_COLUMN 27 /* where the text of an option begins */

/* Prints text wrapped at HELP_COLUMNS; the cursor stands at `column`, further lines begin at `indent`. Ends the line.
 */
static void print_wrapped(FILE *out, const char *text, size_t column, size_t indent)
{
    bool first = true;
    while (*text) {
        size_t length = strcspn(text, " \n");
        bool paragraph = text[length] == '\n' && text[length + 1] == '\n';
        if (!first && column + 1 + length > HELP_COLUMNS) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
            first = true;
        }
        fprintf(out, "%s%.*s", first ? "" : " ", (int)length, text);
        column += length + !first;
        first = false;
        text += length + strspn(text + length, " \n");
        if (paragraph) {
            fprintf(out, "\n\n%*s", (int)indent, "");
            column = indent;
            first = true;
        }
    }
    fputc('\n', out);
}

size_t help_option(char out[HELP_OPTION_SIZE], const option *row)
{
    int n = snprintf(out, HELP_OPTION_SIZE, "%c%c%s--%s%s%s", row->letter ? '-' : ' ', row->letter ? row->letter : ' ',
                     row->letter ? ", " : "  ", row->name, row->value ? " " : "", row->value ? row->value : "");
    return n < 0 ? 0 : n < HELP_OPTION_SIZE ? (size_t)n : HELP_OPTION_SIZE - 1;
}

static void print_options(FILE *out, const option *rows)
{
    for (; rows && rows->name; rows++) {
        char text[HELP_OPTION_SIZE];
        size_t columns = 2 + help_option(text, rows);
        fprintf(out, "  %s", text);
        if (columns + 2 > OPTION_COLUMN) {
            fputc('\n', out);
            columns = 0;
        }
        fprintf(out, "%*s", (int)(OPTION_COLUMN - columns), "");
        print_wrapped(out, rows->help, OPTION_COLUMN, OPTION_COLUMN);
    }
}

static void print_group(FILE *out, command_group group)
{
    fprintf(out, "\n%s\n", command_group_title(group));
    for (const command *const *row = COMMANDS; *row; row++)
        if ((*row)->group == group)
            fprintf(out, "  %-12s %s\n", (*row)->name, (*row)->summary);
}

void help_overview(FILE *out)
{
    fputs("ckpt keeps every checkpoint of a training in a fraction of the space, bit-exact.\n"
          "\n"
          "Usage: ckpt [OPTION]... COMMAND [ARGUMENT]...\n"
          "\n"
          "Three commands to begin with\n"
          "  ckpt init                        make a store in this folder\n"
          "  ckpt save runs/exp1              keep the files a training wrote\n"
          "  ckpt restore latest -o somewhere get them back, byte for byte\n",
          out);
    for (command_group group = 0; group < GROUP_COUNT; group++)
        print_group(out, group);
    fputs("\nOptions before the command; --store, --json and -q may stand anywhere\n", out);
    print_options(out, GLOBAL_OPTIONS);
    fputs("\nA checkpoint is named by a tag, `latest`, `best`, `step:1500` or the beginning\n"
          "of its id; `~N` behind it means N before it, as in latest~1.\n"
          "\n"
          "`ckpt help COMMAND` says more, with examples.\n",
          out);
}

static void print_examples(FILE *out, const char *examples)
{
    fputs("\nExamples\n", out);
    while (*examples) {
        size_t command_length = strcspn(examples, "\t"), line = strcspn(examples, "\n");
        fprintf(out, "  %.*s\n      %.*s\n", (int)command_length, examples, (int)(line - command_length - 1),
                examples + command_length + 1);
        examples += line + (examples[line] == '\n');
    }
}

static void print_exits(FILE *out, const command *c)
{
    fputs("\nExit status\n", out);
    for (const unsigned char *status = c->exits; *status != EXITS_END; status++)
        fprintf(out, "  %3u  %s\n", *status, exit_status_meaning(*status, c));
}

void help_command(FILE *out, const command *c)
{
    fprintf(out, "Usage: ckpt %s%s%s%s\n\n%s\n", c->name, c->options ? " [OPTION]..." : "", *c->args ? " " : "",
            c->args, c->summary);
    if (c->about) {
        fputc('\n', out);
        print_wrapped(out, c->about, 0, 0);
    }
    if (c->options) {
        fputs("\nOptions\n", out);
        print_options(out, c->options);
    }
    if (c->examples)
        print_examples(out, c->examples);
    print_exits(out, c);
    fputs("\n`ckpt help` shows the options of the whole program.\n", out);
}

/* ckpt: reads the command line, runs one command, reports how it went. */
#include "help.h"
#include "output.h"
#include "session.h"

#include "fail.h"

#include <errno.h>
#include <string.h>

static int check_word_count(const session *s, ckpt_error *err)
{
    const command *c = s->command;
    size_t count = s->args.word_count;
    int rc = 0;

    if (count < c->words_min)
        rc = error_set(err, CKPT_EUSAGE, "%s: something is missing: %s", c->name, c->args);
    else if (count > c->words_max)
        rc = error_set(err, CKPT_EUSAGE, "%s: one word too many: %s", c->name, s->args.words[c->words_max]);
    if (rc)
        error_hint(err, "usage: ckpt %s%s%s; `ckpt help %s` says more", c->name, *c->args ? " " : "", c->args, c->name);
    return rc;
}

/* Options before the command word, the word, and what is behind it. *explain: help on the command is wanted, not the
 * command. */
static int read_command_line(bool *explain, session *s, int argc, char *const *argv, ckpt_error *err)
{
    int rc = 0, used = 0;
    option_syntax syntax = {.globals = GLOBAL_OPTIONS};

    TRY(arguments_parse(&s->args, &used, &syntax, argc, argv, err));
    if (arguments_flag(&s->args, "version")) {
        s->command = command_find("version");
        used = argc; /* whatever follows */
    } else if (used < argc)
        s->command = command_find(argv[used]);
    else if (arguments_flag(&s->args, "help"))
        s->command = command_find("help");
    else {
        rc = error_set(err, CKPT_EUSAGE, "no command given");
        error_hint(err, "`ckpt help` lists all commands");
        goto out;
    }
    if (!s->command) {
        rc = command_unknown(argv[used], err);
        goto out;
    }
    if (used < argc) {
        syntax.command = s->command->name;
        syntax.rows = s->command->options;
        used++;
        TRY(arguments_parse(&s->args, &used, &syntax, argc - used, argv + used, err));
        *explain = arguments_flag(&s->args, "help");
    }
    TRY(session_configure(s, err));
out:
    return rc;
}

/* Does a command line that could not be read say --json? Its error then is an object all the same. */
static bool json_is_wanted(int argc, char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0)
            return true;
    return false;
}

static int run_command(session *s, int argc, char *const *argv, ckpt_error *err)
{
    int rc = 0;
    bool explain = false;

    rc = read_command_line(&explain, s, argc, argv, err);
    if (rc)
        s->json = json_is_wanted(argc, argv);
    TRY(rc);
    if (explain) {
        help_command(stdout, s->command);
        goto out;
    }
    TRY(check_word_count(s, err));
    TRY(s->command->run(s, err));
out:
    return rc;
}

int main(int argc, char **argv)
{
    session s = {0};
    ckpt_error err = {0}, output_err = {0};

    output_open();
    int rc = run_command(&s, argc > 0 ? argc - 1 : 0, argv + 1, &err);
    session_work_end(&s);
    int output_rc = output_close(&output_err);
    if (err.sys_errno == EPIPE)
        rc = 0; /* the reader of our output went away: it has all that it wants */
    if (rc)
        session_report(&s, rc, &err);
    else if (output_rc)
        session_report(&s, rc = output_rc, &output_err);
    session_close(&s);
    return ckpt_error_exit_status(rc);
}

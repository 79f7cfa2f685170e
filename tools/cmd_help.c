#include "help.h"
#include "session.h"

static int cmd_help(session *s, ckpt_error *err)
{
    if (!s->args.word_count) {
        help_overview(stdout);
        return 0;
    }
    const command *c = command_find(s->args.words[0]);
    if (!c)
        return command_unknown(s->args.words[0], err);
    help_command(stdout, c);
    return 0;
}

const command CMD_HELP = {
    .name = "help",
    .args = "[COMMAND]",
    .summary = "Explain ckpt or one command",
    .about = "Without COMMAND it lists all commands. `ckpt COMMAND --help` says the same as `ckpt help COMMAND`.",
    .examples = "ckpt help save\tall about saving\n",
    .exits = EXITS(0, 2),
    .words_max = 1,
    .group = GROUP_ABOUT,
    .completes = COMPLETES_COMMANDS,
    .run = cmd_help,
};

/* Completion scripts of shells, made from the rows of commands and options. */
#include "session.h"

#include "fail.h"

#include <stdio.h>
#include <string.h>

static void bash_options(const option *rows, bool behind_command)
{
    for (; rows && rows->name; rows++)
        if (!behind_command || rows->place != PLACE_FIRST)
            printf(" --%s", rows->name);
}

/* Prints text with | as blanks: the words of an OPT_CHOICE. */
static void print_choices(const char *choices)
{
    for (; *choices; choices++)
        fputc(*choices == '|' ? ' ' : *choices, stdout);
}

static void bash_values(const char *word, const option *rows)
{
    for (; rows && rows->name; rows++) {
        if (rows->kind == OPT_FLAG)
            continue;
        printf("        %s:--%s", word, rows->name);
        if (rows->letter)
            printf("|%s:-%c", word, rows->letter);
        fputs(") ", stdout);
        if (rows->kind == OPT_DIR)
            fputs("compopt -o filenames; COMPREPLY=($(compgen -d -- \"$cur\"))", stdout);
        else if (rows->kind == OPT_CHOICE) {
            fputs("COMPREPLY=($(compgen -W '", stdout);
            print_choices(rows->value);
            fputs("' -- \"$cur\"))", stdout);
        } else
            fputc(':', stdout);
        fputs("; return ;;\n", stdout);
    }
}

static void bash_words(const command *c)
{
    static const char *const ACTIONS[] = {
        [COMPLETES_NOTHING] = ":",
        [COMPLETES_PATHS] = "paths=1",
        [COMPLETES_NAMES] = "names=1",
        [COMPLETES_NAMES_AND_PATHS] = "paths=1; names=1",
        [COMPLETES_COMMANDS] = "words=$commands",
        [COMPLETES_SHELLS] = "words='bash zsh'",
    };
    printf("        %s) %s; options='", c->name, ACTIONS[c->completes]);
    bash_options(c->options, false);
    puts("' ;;");
}

/* Options before the command word whose value is not the command. */
static void bash_skips(void)
{
    for (const option *row = GLOBAL_OPTIONS; row->name; row++)
        if (row->kind != OPT_FLAG)
            printf("        -%c|--%s) i=$((i + 1)) ;;\n", row->letter, row->name);
}

static void print_bash(void)
{
    fputs("# bash completion of ckpt; use it by: source <(ckpt completion bash)\n"
          "_ckpt()\n"
          "{\n"
          "    local cur prev command='' words='' options='' paths='' names='' name quoted i\n"
          "    local commands='",
          stdout);
    for (const command *const *row = COMMANDS; *row; row++)
        printf("%s%s", row == COMMANDS ? "" : " ", (*row)->name);
    fputs("'\n"
          "    COMPREPLY=()\n"
          "    cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        case ${COMP_WORDS[i]} in\n",
          stdout);
    bash_skips();
    fputs("        -*) ;;\n"
          "        *) command=${COMP_WORDS[i]}; break ;;\n"
          "        esac\n"
          "    done\n"
          "    case $command:$prev in\n",
          stdout);
    bash_values("", GLOBAL_OPTIONS);
    for (const command *const *row = COMMANDS; *row; row++)
        bash_values((*row)->name, (*row)->options);
    fputs("        *:--store) compopt -o filenames; COMPREPLY=($(compgen -d -- \"$cur\")); return ;;\n"
          "    esac\n"
          "    case $command in\n"
          "        '') words=$commands; options='",
          stdout);
    bash_options(GLOBAL_OPTIONS, false);
    puts("' ;;");
    for (const command *const *row = COMMANDS; *row; row++)
        bash_words(*row);
    fputs("    esac\n"
          "    [[ $command ]] && options+='",
          stdout);
    bash_options(GLOBAL_OPTIONS, true);
    fputs("'\n"
          "    if [[ $cur == -* ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
          "        return\n"
          "    fi\n"
          "    [[ $paths ]] && compopt -o filenames && COMPREPLY=($(compgen -f -- \"$cur\"))\n"
          "    COMPREPLY+=($(compgen -W \"$words\" -- \"$cur\"))\n"
          "    [[ $names ]] || return\n"
          "    while IFS= read -r name; do # a tag may hold blanks\n"
          "        printf -v quoted %q \"$name\"\n"
          "        if [[ $cur == [\\\"\\']* ]]; then\n"
          "            [[ $name == \"${cur:1}\"* ]] && COMPREPLY+=(\"$name\")\n"
          "        elif [[ $quoted == \"$cur\"* ]]; then\n"
          "            COMPREPLY+=(\"$quoted\")\n"
          "        fi\n"
          "    done < <(ckpt completion names 2>/dev/null)\n"
          "}\n"
          "complete -F _ckpt ckpt\n",
          stdout);
}

/* Text inside '...[text]...' of _arguments. */
static void zsh_text(const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr("[]:\\", *text))
            printf("\\%c", *text);
        else
            fputc(*text, stdout);
    }
}

static void zsh_option(const char *dashes, const char *name, const option *row)
{
    printf("            '%s%s%s%s[", row->kind == OPT_PAIR || row->kind == OPT_LIST ? "*" : "", dashes, name,
           row->kind != OPT_FLAG && dashes[1] ? "=" : "");
    zsh_text(row->help);
    fputc(']', stdout);
    if (row->kind == OPT_DIR)
        printf(":%s:_files -/", row->value);
    else if (row->kind == OPT_CHOICE) {
        fputs(":word:(", stdout);
        print_choices(row->value);
        fputc(')', stdout);
    } else if (row->kind != OPT_FLAG) {
        fputc(':', stdout);
        zsh_text(row->value);
        fputs(": ", stdout);
    }
    fputs("' \\\n", stdout);
}

static void zsh_options(const option *rows, bool behind_command)
{
    for (; rows && rows->name; rows++) {
        char letter[2] = {rows->letter, 0};
        if (behind_command && rows->place == PLACE_FIRST)
            continue;
        zsh_option("--", rows->name, rows);
        if (rows->letter && !(behind_command && rows->place == PLACE_ANYWHERE_LONG))
            zsh_option("-", letter, rows);
    }
}

static void zsh_command(const command *c)
{
    static const char *const ACTIONS[] = {
        [COMPLETES_NOTHING] = "",
        [COMPLETES_PATHS] = "            '*:path:_files'",
        [COMPLETES_NAMES] = "            '*:checkpoint:_ckpt_names'",
        [COMPLETES_NAMES_AND_PATHS] = "            '*:checkpoint or file:_ckpt_names_and_paths'",
        [COMPLETES_COMMANDS] = "            '*:command:_ckpt_commands'",
        [COMPLETES_SHELLS] = "            '*:shell:(bash zsh)'",
    };
    printf("        %s) _arguments -S \\\n", c->name);
    zsh_options(c->options, false);
    zsh_options(GLOBAL_OPTIONS, true);
    printf("%s ;;\n", ACTIONS[c->completes]);
}

static void print_zsh(void)
{
    fputs("#compdef ckpt\n"
          "# zsh completion of ckpt; use it by: ckpt completion zsh > \"${fpath[1]}/_ckpt\"\n"
          "_ckpt_names() { local -a names=(${(f)\"$(ckpt completion names 2>/dev/null)\"}); compadd -a names }\n"
          "_ckpt_names_and_paths() { _ckpt_names; _files }\n"
          "_ckpt_commands() {\n"
          "    local -a commands=(\n",
          stdout);
    for (const command *const *row = COMMANDS; *row; row++) {
        printf("        '%s:", (*row)->name);
        zsh_text((*row)->summary);
        puts("'");
    }
    fputs("    )\n"
          "    _describe command commands\n"
          "}\n"
          "_ckpt() {\n"
          "    local context state line\n"
          "    typeset -A opt_args\n"
          "    _arguments -S -C \\\n",
          stdout);
    zsh_options(GLOBAL_OPTIONS, false);
    fputs("            '1:command:_ckpt_commands' '*::argument:->argument' && return\n"
          "    [[ $state == argument ]] && case $line[1] in\n",
          stdout);
    for (const command *const *row = COMMANDS; *row; row++)
        zsh_command(*row);
    fputs("    esac\n"
          "}\n"
          "_ckpt \"$@\"\n",
          stdout);
}

/* What the scripts offer where a checkpoint is wanted. */
static int print_names(session *s, ckpt_error *err)
{
    int rc = 0;
    ckpt_list *list = NULL;

    TRY(session_open(s, err));
    TRY(ckpt_list_new(&list, s->store, err));
    puts("latest\nbest");
    for (size_t i = 0; i < ckpt_list_count(list); i++) {
        const ckpt_info *info = ckpt_list_get(list, i);
        for (size_t k = 0; k < info->tag_count; k++)
            puts(info->tags[k]);
    }
out:
    ckpt_list_free(list);
    return rc;
}

static int cmd_completion(session *s, ckpt_error *err)
{
    const char *shell = s->args.words[0];
    if (strcmp(shell, "bash") == 0)
        print_bash();
    else if (strcmp(shell, "zsh") == 0)
        print_zsh();
    else if (strcmp(shell, "names") == 0)
        return print_names(s, err);
    else
        return error_set(err, CKPT_EUSAGE, "completion: %s: not one of bash, zsh, names", shell);
    return 0;
}

const command CMD_COMPLETION = {
    .name = "completion",
    .args = "bash|zsh|names",
    .summary = "Print a script that completes commands in the shell",
    .about = "`names` prints the names of checkpoints that the scripts offer.",
    .examples = "source <(ckpt completion bash)\tfor this shell; put it into ~/.bashrc to keep it\n"
                "ckpt completion zsh > \"${fpath[1]}/_ckpt\"\tfor all later shells\n",
    .exits = EXITS(0, 2, 4, 10),
    .words_min = 1,
    .words_max = 1,
    .group = GROUP_ABOUT,
    .completes = COMPLETES_SHELLS,
    .run = cmd_completion,
};

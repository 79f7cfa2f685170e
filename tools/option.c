#include "option.h"

#include "fail.h"
#include "units.h"
#include "word.h"

#include <stdlib.h>
#include <string.h>

#define WORD_COMPARE_MAX 32 /* longer words are not guessed at */
#define OPTION_ROWS_MAX  64 /* of the command and the program together */

static const option *rows_find(const option *rows, const char *name, size_t length)
{
    for (; rows && rows->name; rows++)
        if (strlen(rows->name) == length && memcmp(rows->name, name, length) == 0)
            return rows;
    return NULL;
}

const option *option_find(const option *rows, const char *name)
{
    return rows_find(rows, name, strlen(name));
}

static const option *rows_find_letter(const option *rows, char letter)
{
    for (; rows && rows->name; rows++)
        if (rows->letter == letter)
            return rows;
    return NULL;
}

/* Prefix for messages: "save: " behind the command word, nothing before it. */
static const char *syntax_context(const option_syntax *syntax)
{
    return syntax->command ? syntax->command : "";
}

static const char *syntax_colon(const option_syntax *syntax)
{
    return syntax->command ? ": " : "";
}

static void hint_help(const option_syntax *syntax, ckpt_error *err)
{
    error_hint(err, "`ckpt help%s%s` lists all options", syntax->command ? " " : "", syntax_context(syntax));
}

static int fail_unknown(const option_syntax *syntax, const char *name, size_t length, ckpt_error *err)
{
    const char *list[OPTION_ROWS_MAX + 1];
    size_t count = 0;
    char word[WORD_COMPARE_MAX + 1] = "";
    int rc = error_set(err, CKPT_EUSAGE, "%s%sunknown option --%.*s", syntax_context(syntax), syntax_colon(syntax),
                       (int)length, name);

    for (const option *row = syntax->rows; row && row->name && count < OPTION_ROWS_MAX; row++)
        list[count++] = row->name;
    for (const option *row = syntax->globals; row && row->name && count < OPTION_ROWS_MAX; row++)
        list[count++] = row->name;
    list[count] = NULL;
    if (length <= WORD_COMPARE_MAX)
        memcpy(word, name, length);
    const char *nearest = word_nearest(word, list);
    if (nearest)
        error_hint(err, "did you mean --%s?", nearest);
    hint_help(syntax, err);
    return rc;
}

/* May a global option stand behind the command word? */
static int check_place(const option_syntax *syntax, const option *row, bool by_letter, ckpt_error *err)
{
    if (!syntax->command || row->place == PLACE_ANYWHERE || (row->place == PLACE_ANYWHERE_LONG && !by_letter))
        return 0;
    int rc = by_letter ? error_set(err, CKPT_EUSAGE, "%s: unknown option -%c", syntax->command, row->letter)
                       : error_set(err, CKPT_EUSAGE, "%s: unknown option --%s", syntax->command, row->name);
    if (row->place == PLACE_ANYWHERE_LONG)
        error_hint(err, "-%c stands before the command word: `ckpt -%c %s %s ...`; --%s may stand anywhere",
                   row->letter, row->letter, row->value, syntax->command, row->name);
    else
        error_hint(err, "--%s stands before the command word: `ckpt --%s%s%s %s ...`", row->name, row->name,
                   row->value ? " " : "", row->value ? row->value : "", syntax->command);
    return rc;
}

/* Is text one of the words of "name|change|size"? */
static bool choice_has(const char *choices, const char *text)
{
    size_t length = strlen(text);
    for (size_t n; *choices; choices += n + (choices[n] == '|')) {
        n = strcspn(choices, "|");
        if (n == length && memcmp(choices, text, n) == 0)
            return true;
    }
    return false;
}

static int value_check(option_given *given, const option_syntax *syntax, ckpt_error *err)
{
    int rc = 0;
    const option *row = given->row;
    const char *context = syntax_context(syntax), *colon = syntax_colon(syntax), *text = given->text;

    if (row->kind == OPT_COUNT) {
        uint64_t count = 0;
        FAIL_IF(parse_u64(&count, text, NULL) || count > INT64_MAX, err, CKPT_EUSAGE,
                "%s%s--%s %s: not a whole number from 0 to %lld", context, colon, row->name, text,
                (long long)INT64_MAX);
        given->count = (int64_t)count;
    } else if (row->kind == OPT_PAIR) {
        FAIL_IF(!strchr(text, '=') || text[0] == '=', err, CKPT_EUSAGE, "%s%s--%s %s: not of the form %s", context,
                colon, row->name, text, row->value);
    } else if (row->kind == OPT_LIST) {
        FAIL_IF(!*text, err, CKPT_EUSAGE, "%s%s--%s: %s is empty", context, colon, row->name, row->value);
    } else if (row->kind == OPT_CHOICE) {
        FAIL_IF(!choice_has(row->value, text), err, CKPT_EUSAGE, "%s%s--%s %s: not one of %s", context, colon,
                row->name, text, row->value);
    }
out:
    return rc;
}

static const option_given *given_find(const arguments *args, const char *name)
{
    for (size_t i = 0; i < args->given_count; i++)
        if (strcmp(args->given[i].row->name, name) == 0)
            return &args->given[i];
    return NULL;
}

static int given_add(arguments *out, const option_syntax *syntax, const option *row, const char *text, ckpt_error *err)
{
    int rc = 0;
    option_given *given = &out->given[out->given_count];

    const bool once = row->kind != OPT_FLAG && row->kind != OPT_PAIR && row->kind != OPT_LIST;

    FAIL_IF(once && given_find(out, row->name), err, CKPT_EUSAGE, "%s%s--%s is given twice", syntax_context(syntax),
            syntax_colon(syntax), row->name);
    *given = (option_given){.row = row, .text = text};
    TRY(value_check(given, syntax, err));
    out->given_count++;
out:
    return rc;
}

/* The value of an option that stands in the next argument. */
static int value_next(const char **value, int *i, const option_syntax *syntax, const option *row, int argc,
                      char *const *argv, ckpt_error *err)
{
    if (*i + 1 < argc) {
        *value = argv[++*i];
        return 0;
    }
    int rc = error_set(err, CKPT_EUSAGE, "%s%s--%s needs a value: %s", syntax_context(syntax), syntax_colon(syntax),
                       row->name, row->value);
    hint_help(syntax, err);
    return rc;
}

static int parse_long(arguments *out, int *i, const option_syntax *syntax, int argc, char *const *argv, ckpt_error *err)
{
    int rc = 0;
    const char *name = argv[*i] + 2, *value = strchr(name, '=');
    size_t length = value ? (size_t)(value - name) : strlen(name);
    const option *row = rows_find(syntax->rows, name, length);

    if (!row) {
        row = rows_find(syntax->globals, name, length);
        if (!row)
            return fail_unknown(syntax, name, length, err);
        TRY(check_place(syntax, row, false, err));
    }
    FAIL_IF(value && row->kind == OPT_FLAG, err, CKPT_EUSAGE, "%s%s--%s takes no value", syntax_context(syntax),
            syntax_colon(syntax), row->name);
    if (row->kind == OPT_FLAG)
        value = "";
    else if (value)
        value++;
    else
        TRY(value_next(&value, i, syntax, row, argc, argv, err));
    TRY(given_add(out, syntax, row, value, err));
out:
    return rc;
}

static int parse_letters(arguments *out, int *i, const option_syntax *syntax, int argc, char *const *argv,
                         ckpt_error *err)
{
    int rc = 0;
    for (const char *letter = argv[*i] + 1; *letter; letter++) {
        const option *row = rows_find_letter(syntax->rows, *letter);
        const char *value = "";
        if (!row) {
            row = rows_find_letter(syntax->globals, *letter);
            if (row)
                TRY(check_place(syntax, row, true, err));
        }
        if (!row) {
            rc = error_set(err, CKPT_EUSAGE, "%s%sunknown option -%c", syntax_context(syntax), syntax_colon(syntax),
                           *letter);
            hint_help(syntax, err);
            goto out;
        }
        if (row->kind != OPT_FLAG && letter[1])
            value = letter + 1;
        else if (row->kind != OPT_FLAG)
            TRY(value_next(&value, i, syntax, row, argc, argv, err));
        TRY(given_add(out, syntax, row, value, err));
        if (row->kind != OPT_FLAG)
            break;
    }
out:
    return rc;
}

/* Makes room for what argc more arguments can add: each letter of a bundle is an option. */
static int arguments_reserve(arguments *out, int argc, char *const *argv, ckpt_error *err)
{
    int rc = 0;
    size_t options = out->given_count;

    FAIL_IF(argc > OPTION_WORDS_MAX, err, CKPT_EUSAGE, "more than %d arguments", OPTION_WORDS_MAX);
    for (int i = 0; i < argc; i++)
        options += argv[i][0] == '-' ? strlen(argv[i]) : 0;
    option_given *given = realloc(out->given, (options + 1) * sizeof(*given));
    FAIL_IF_NULL(given, err);
    out->given = given;
    const char **words = realloc(out->words, (out->word_count + (size_t)argc + 1) * sizeof(*words));
    FAIL_IF_NULL(words, err);
    out->words = words;
    out->words[out->word_count] = NULL;
out:
    return rc;
}

int arguments_parse(arguments *out, int *used, const option_syntax *syntax, int argc, char *const *argv,
                    ckpt_error *err)
{
    int rc = 0, i = 0;
    bool options_end = false;

    TRY(arguments_reserve(out, argc, argv, err));
    for (; i < argc; i++) {
        const char *word = argv[i];
        if (options_end || word[0] != '-' || !word[1]) {
            if (!syntax->command)
                break;
            out->words[out->word_count++] = word;
        } else if (strcmp(word, "--") == 0) {
            options_end = true;
        } else if (word[1] == '-') {
            TRY(parse_long(out, &i, syntax, argc, argv, err));
        } else {
            TRY(parse_letters(out, &i, syntax, argc, argv, err));
        }
    }
    out->words[out->word_count] = NULL;
out:
    *used = i;
    return rc;
}

void arguments_clear(arguments *args)
{
    free(args->given);
    free(args->words);
    *args = (arguments){0};
}

bool arguments_flag(const arguments *args, const char *name)
{
    return given_find(args, name) != NULL;
}

const char *arguments_text(const arguments *args, const char *name)
{
    const option_given *given = given_find(args, name);
    return given ? given->text : NULL;
}

int64_t arguments_count(const arguments *args, const char *name, int64_t otherwise)
{
    const option_given *given = given_find(args, name);
    return given ? given->count : otherwise;
}

int arguments_share(double *out, const arguments *args, const char *name, ckpt_error *err)
{
    const char *const text = arguments_text(args, name);
    const int rc = text ? parse_share(out, text, err) : 0;

    if (!text)
        *out = 0;
    if (rc)
        error_prefix(err, "--%s", name);
    return rc;
}

const char *arguments_pair(const arguments *args, const char *name, size_t i)
{
    for (size_t k = 0; k < args->given_count; k++)
        if (strcmp(args->given[k].row->name, name) == 0 && i-- == 0)
            return args->given[k].text;
    return NULL;
}

int arguments_list(const char ***out, size_t *count, const arguments *args, const char *name, ckpt_error *err)
{
    size_t n = 0;
    const char **list;

    while (arguments_pair(args, name, n))
        n++;
    list = calloc(n + 1, sizeof *list);
    if (!list)
        return error_memory(err);
    for (size_t i = 0; i < n; i++)
        list[i] = arguments_pair(args, name, i);
    *out = list;
    *count = n;
    return 0;
}

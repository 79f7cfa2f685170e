#include "name_step.h"

#include "file.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define DIGITS_MAX 15 /* a longer number is a hash or a time */

static const char *const STEPS[] = {"checkpoint", "global_step", "step", "steps", "iter", "iteration", NULL};
static const char *const EPOCHS[] = {"epoch", "epochs", "ep", NULL};

/* The number behind the word that begins at `at`, with one of "-_=." or nothing between; `at` must begin a word. */
static int64_t number_behind(const char *word, const char *name, const char *at)
{
    const size_t length = strlen(word);

    if ((at > name && isalpha((unsigned char)at[-1])) || strncasecmp(at, word, length) != 0)
        return NAME_STEP_NONE;
    at += length;
    at += *at && strchr("-_=.", *at) != NULL;
    const size_t digits = strspn(at, "0123456789");
    if (digits == 0 || digits > DIGITS_MAX)
        return NAME_STEP_NONE;
    int64_t value = 0;
    for (size_t i = 0; i < digits; i++)
        value = value * 10 + (at[i] - '0');
    return value;
}

/* The last place counts: "checkpoint-run2-step-500". */
static int64_t number_of(const char *const *words, const char *name)
{
    for (size_t i = strlen(name); i-- > 0;)
        for (const char *const *word = words; *word; word++) {
            const int64_t value = number_behind(*word, name, name + i);
            if (value != NAME_STEP_NONE)
                return value;
        }
    return NAME_STEP_NONE;
}

void name_step(int64_t *step, int64_t *epoch, const char *path)
{
    const char *const name = path_base(path);

    *step = number_of(STEPS, name);
    *epoch = number_of(EPOCHS, name);
}

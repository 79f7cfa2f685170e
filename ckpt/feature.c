#include "feature.h"

#include "fail.h"
#include "ini.h"
#include "lease.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_SEPARATORS ", \t"
#define LIST_SECTION    "store"
#define LIST_READ_ONLY  "read-only"
#define LIST_COMPATIBLE "compatible"

/* Words that this version knows, and the bit that the packs have which use it. */
static const struct {
    const char *word;
    uint32_t bit;
} FEATURES[] = {
    {"context-modes", PACK_FEATURE_CONTEXT},
    {"palette", PACK_FEATURE_PALETTE},
    {"transforms", PACK_FEATURE_TRANSFORMS},
};
#define FEATURE_COUNT (sizeof FEATURES / sizeof FEATURES[0])

static bool word_is(const char *word, const char *text, size_t size)
{
    return strlen(word) == size && memcmp(word, text, size) == 0;
}

static bool feature_is_known(const char *text, size_t size)
{
    for (size_t i = 0; i < FEATURE_COUNT; i++)
        if (word_is(FEATURES[i].word, text, size))
            return true;
    return false;
}

/* The next word of a list from *at on, which moves behind it; its size is 0 at the end. */
static const char *list_next(size_t *size, const char **at)
{
    const char *const word = *at + strspn(*at, LIST_SEPARATORS);

    *size = strcspn(word, LIST_SEPARATORS);
    *at = word + *size;
    return word;
}

const char *feature_unknown(int *size, const char *list)
{
    size_t length = 0;

    if (!list)
        return NULL;
    for (const char *word = list_next(&length, &list); length > 0; word = list_next(&length, &list))
        if (!feature_is_known(word, length)) {
            *size = (int)length;
            return word;
        }
    return NULL;
}

static bool list_has(const char *list, const char *feature)
{
    size_t size = 0;

    for (const char *word = list_next(&size, &list); size > 0; word = list_next(&size, &list))
        if (word_is(feature, word, size))
            return true;
    return false;
}

/* Adds a word to a list of config.ini unless it is there. */
static int list_add(bool *changed, ini *config, const char *key, const char *word, ckpt_error *err)
{
    int rc = 0;
    char list[INI_VALUE_MAX + 1];
    const char *const now = ini_get(config, LIST_SECTION, NULL, key);

    if (now && list_has(now, word))
        goto out;
    const int size = snprintf(list, sizeof list, "%s%s%s", now ? now : "", now && *now ? ", " : "", word);
    FAIL_IF(size < 0 || (size_t)size >= sizeof list, err, CKPT_EUSAGE, "the list `%s` is too long", key);
    TRY(ini_set(config, LIST_SECTION, NULL, key, list, err));
    *changed = true;
out:
    return rc;
}

int features_list(bool *changed, ini *config, uint32_t bits, ckpt_error *err)
{
    int rc = 0;

    *changed = false;
    for (size_t i = 0; i < FEATURE_COUNT; i++)
        if (bits & FEATURES[i].bit)
            TRY(list_add(changed, config, LIST_READ_ONLY, FEATURES[i].word, err));
out:
    return rc;
}

/* Words that shall stand in the lists. */
typedef struct words {
    uint32_t bits;
    const char *compatible; /* or NULL */
} words;

static int words_add(bool *changed, ini *config, const words *w, ckpt_error *err)
{
    int rc = 0;

    TRY(features_list(changed, config, w->bits, err));
    if (w->compatible)
        TRY(list_add(changed, config, LIST_COMPATIBLE, w->compatible, err));
out:
    return rc;
}

static int words_announce(ckpt_store *store, const words *w, ckpt_error *err)
{
    int rc = 0;
    struct lease *exclusive = NULL;
    ini *config = NULL;
    char *text = NULL;
    size_t size = 0;
    bool changed = false;

    TRY(store_config_read(&config, store, err));
    TRY(words_add(&changed, config, w, err));
    if (!changed)
        goto out;
    /* Once more, alone: two writers with different words must not undo each other. */
    ini_free(config);
    config = NULL;
    TRY(prune_lease_take(&exclusive, store, INTENT_WAIT_MS, err));
    TRY(store_config_read(&config, store, err));
    TRY(words_add(&changed, config, w, err));
    TRY(ini_write(&text, &size, config, err));
    TRY(file_replace(store->config_path, store->tmp_dir, text, size, err));
out:
    if (rc)
        error_prefix(err, "note in %s what the store uses", store->config_path);
    lease_release(exclusive);
    ini_free(config);
    free(text);
    return rc;
}

int features_announce(ckpt_store *store, uint32_t bits, ckpt_error *err)
{
    return bits ? words_announce(store, &(words){.bits = bits}, err) : 0;
}

int feature_compatible_add(ckpt_store *store, const char *word, ckpt_error *err)
{
    return words_announce(store, &(words){.compatible = word}, err);
}

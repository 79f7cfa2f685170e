#include "feature.h"

#include "fail.h"
#include "ini.h"
#include "lease.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_SEPARATORS ", \t"
#define LIST_SECTION    "store"
#define LIST_KEY        "read-only"

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

int features_list(bool *changed, ini *config, uint32_t bits, ckpt_error *err)
{
    int rc = 0;
    char list[INI_VALUE_MAX + 1];

    *changed = false;
    for (size_t i = 0; i < FEATURE_COUNT; i++) {
        const char *const now = ini_get(config, LIST_SECTION, NULL, LIST_KEY);
        if (!(bits & FEATURES[i].bit) || (now && list_has(now, FEATURES[i].word)))
            continue;
        snprintf(list, sizeof list, "%s%s%s", now ? now : "", now && *now ? ", " : "", FEATURES[i].word);
        TRY(ini_set(config, LIST_SECTION, NULL, LIST_KEY, list, err));
        *changed = true;
    }
out:
    return rc;
}

int features_announce(ckpt_store *store, uint32_t bits, ckpt_error *err)
{
    int rc = 0;
    struct lease *exclusive = NULL;
    ini *config = NULL;
    char *text = NULL;
    size_t size = 0;
    bool changed = false;

    if (!bits)
        return 0;
    TRY(store_config_read(&config, store, err));
    TRY(features_list(&changed, config, bits, err));
    if (!changed)
        goto out;
    /* Once more, alone: two writers with different words must not undo each other. */
    ini_free(config);
    config = NULL;
    TRY(prune_lease_take(&exclusive, store, INTENT_WAIT_MS, err));
    TRY(store_config_read(&config, store, err));
    TRY(features_list(&changed, config, bits, err));
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

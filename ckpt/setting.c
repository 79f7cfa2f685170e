#include "setting.h"

#include "metric.h"

#include "fail.h"
#include "ini.h"
#include "lease.h"
#include "units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTION          "store"
#define COMPATIBLE       "compatible"
#define WORDS_SEPARATORS ", \t"

static int parity_check(const char *value, ckpt_error *err)
{
    double share;

    return parse_share(&share, value, err);
}

static int quota_check(const char *value, ckpt_error *err)
{
    uint64_t bytes;

    return parse_size(&bytes, value, err);
}

static int best_check(const char *value, ckpt_error *err)
{
    metric ignored;

    return metric_parse(&ignored, value, err);
}

static const struct setting {
    const char *section, *key;
    int (*check)(const char *value, ckpt_error *err);
} SETTINGS[] = {
    {SECTION, SETTING_PARITY, parity_check},
    {SECTION, SETTING_QUOTA, quota_check},
    {"retention", "keep", ckpt_policy_check},
    {"retention", "best", best_check},
};

static const struct setting *setting_find(const char *key)
{
    for (size_t i = 0; i < sizeof SETTINGS / sizeof SETTINGS[0]; i++)
        if (strcmp(SETTINGS[i].key, key) == 0)
            return &SETTINGS[i];
    return NULL;
}

static int config_write(const ckpt_store *store, const ini *config, ckpt_error *err)
{
    int rc = 0;
    char *text = NULL;
    size_t size = 0;

    TRY(ini_write(&text, &size, config, err));
    TRY(file_replace(store->config_path, store->tmp_dir, text, size, err));
out:
    free(text);
    return rc;
}

int ckpt_setting_set(ckpt_store *store, const char *key, const char *value, ckpt_error *err)
{
    int rc = 0;
    ini *config = NULL;
    lease *exclusive = NULL;
    const struct setting *const setting = setting_find(key);

    FAIL_IF(!setting, err, CKPT_EUSAGE, "there is no setting `%.64s`", key);
    TRY(setting->check(value, err));
    TRY(store_writable(store, err));
    /* Who else edits config.ini holds it too, so that neither undoes the other. */
    TRY(prune_lease_take(&exclusive, store, INTENT_WAIT_MS, err));
    TRY(store_config_read(&config, store, err));
    TRY(ini_set(config, setting->section, NULL, key, value, err));
    TRY(config_write(store, config, err));
out:
    lease_release(exclusive);
    ini_free(config);
    return rc;
}

int setting_parity(double *share, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    char *text = NULL;

    *share = 0;
    TRY(store_config_get(&text, store, SECTION, SETTING_PARITY, err));
    if (text && *text && parse_share(share, text, err)) {
        error_prefix(err, "%s: [" SECTION "] " SETTING_PARITY, store->config_path);
        rc = CKPT_EUSAGE;
    }
out:
    free(text);
    return rc;
}

int setting_quota(uint64_t *bytes, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    char *text = NULL;

    *bytes = 0;
    TRY(store_config_get(&text, store, SECTION, SETTING_QUOTA, err));
    if (text && *text && parse_size(bytes, text, err)) {
        error_prefix(err, "%s: [" SECTION "] " SETTING_QUOTA, store->config_path);
        rc = CKPT_EUSAGE;
    }
out:
    free(text);
    return rc;
}

static bool list_has(const char *list, const char *word)
{
    const size_t length = strlen(word);

    for (const char *at = list ? list : ""; *at;) {
        at += strspn(at, WORDS_SEPARATORS);
        const size_t size = strcspn(at, WORDS_SEPARATORS);
        if (size == length && memcmp(at, word, size) == 0)
            return true;
        at += size;
    }
    return false;
}

int setting_compatible_add(ckpt_store *store, const char *word, bool alone, ckpt_error *err)
{
    int rc = 0;
    ini *config = NULL;
    lease *exclusive = NULL;
    char list[INI_VALUE_MAX + 1];

    TRY(store_config_read(&config, store, err));
    if (list_has(ini_get(config, SECTION, NULL, COMPATIBLE), word))
        goto out;
    if (!alone)
        TRY(prune_lease_take(&exclusive, store, INTENT_WAIT_MS, err));
    ini_free(config); /* once more, alone */
    config = NULL;
    TRY(store_config_read(&config, store, err));
    const char *const now = ini_get(config, SECTION, NULL, COMPATIBLE);
    if (list_has(now, word))
        goto out;
    snprintf(list, sizeof list, "%s%s%s", now ? now : "", now && *now ? ", " : "", word);
    TRY(ini_set(config, SECTION, NULL, COMPATIBLE, list, err));
    TRY(config_write(store, config, err));
out:
    if (rc)
        error_prefix(err, "note in %s that the store uses `%s`", store->config_path, word);
    lease_release(exclusive);
    ini_free(config);
    return rc;
}

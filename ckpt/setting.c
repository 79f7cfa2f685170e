#include "setting.h"

#include "metric.h"

#include "fail.h"
#include "ini.h"
#include "lease.h"
#include "units.h"

#include <stdlib.h>
#include <string.h>

#define SECTION "store"

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

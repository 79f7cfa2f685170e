#include "policy.h"

#include "fail.h"
#include "file.h"
#include "ini.h"

#include <stdlib.h>
#include <string.h>

static int value_take(char **out, const ini *config, const char *key, ckpt_error *err)
{
    int rc = 0;
    const char *const value = ini_get(config, "retention", NULL, key);

    *out = value ? strdup(value) : NULL;
    if (value)
        FAIL_IF_NULL(*out, err);
out:
    return rc;
}

int policy_read(char **keep, char **best, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX], *text = NULL;
    size_t size = 0;
    ini *config = NULL;

    TRY(path_join(path, ckpt_store_path(store), "config.ini", err));
    TRY(file_read_all(&text, &size, path, INI_SIZE_MAX, err));
    TRY(ini_parse(&config, text, size, path, err));
    if (keep)
        TRY(value_take(keep, config, "keep", err));
    if (best)
        TRY(value_take(best, config, "best", err));
out:
    ini_free(config);
    free(text);
    return rc;
}

int policy_metric(char **key, const ckpt_store *store, ckpt_error *err)
{
    const int rc = policy_read(NULL, key, store, err);

    if (!rc && *key)
        (*key)[strcspn(*key, " \t")] = 0;
    return rc;
}

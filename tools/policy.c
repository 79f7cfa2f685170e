#include "policy.h"

#include "fail.h"
#include "file.h"
#include "ini.h"

#include <stdlib.h>
#include <string.h>

int policy_read(char **keep, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX], *text = NULL;
    size_t size = 0;
    ini *config = NULL;
    const char *value;

    *keep = NULL;
    TRY(path_join(path, ckpt_store_path(store), "config.ini", err));
    TRY(file_read_all(&text, &size, path, INI_SIZE_MAX, err));
    TRY(ini_parse(&config, text, size, path, err));
    value = ini_get(config, "retention", NULL, "keep");
    if (value) {
        *keep = strdup(value);
        FAIL_IF_NULL(*keep, err);
    }
out:
    ini_free(config);
    free(text);
    return rc;
}

#include "run_meta.h"

#include <string.h>

const char *run_meta_get(const ckpt_info *info, const char *key)
{
    for (size_t i = 0; i < info->meta_count; i++)
        if (strcmp(info->meta[i].key, key) == 0)
            return info->meta[i].value;
    return NULL;
}

bool run_meta_is_of(const ckpt_info *info, const char *run)
{
    const char *const name = run_meta_get(info, RUN_META_RUN);

    return name && run_meta_get(info, RUN_META_REASON) && (!run || strcmp(name, run) == 0);
}

const ckpt_info *run_meta_newest(const ckpt_list *list, const char *run)
{
    const size_t count = ckpt_list_count(list);

    for (size_t i = 0; i < count; i++) {
        const ckpt_info *const info = ckpt_list_get(list, i);
        if (run_meta_is_of(info, run))
            return info;
    }
    return NULL;
}

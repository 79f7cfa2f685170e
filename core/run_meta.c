#include "run_meta.h"

#include "utf8.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

bool run_meta_is_plain(const char *text)
{
    const size_t size = strlen(text);
    uint32_t code = 0;

    for (size_t at = 0, n; at < size; at += n) {
        n = utf8_next(&code, text + at, size - at);
        if (n == 0 || code < 0x20 || (code >= 0x7f && code < 0xa0))
            return false;
    }
    return size <= RUN_META_VALUE_MAX;
}

static void text_add(run_meta *m, const char *key, const char *text)
{
    assert(m->count < RUN_META_PAIRS);
    m->pairs[m->count++] = (ckpt_value){key, text};
}

static void number_add(run_meta *m, char text[REAL_TEXT_SIZE], const char *key, double value, unsigned places)
{
    if (isnan(value))
        return;
    real_decimal(text, value, places);
    text_add(m, key, text);
}

void run_meta_fill(run_meta *m, const run_facts *facts)
{
    m->count = 0;
    snprintf(m->epoch, sizeof m->epoch, "%" PRIu64, facts->epoch);
    text_add(m, RUN_META_RUN, facts->run);
    text_add(m, "epoch", m->epoch);
    if (facts->data)
        text_add(m, RUN_META_DATA, facts->data);
    text_add(m, "host", facts->host);
    number_add(m, m->numbers[0], "seconds", facts->seconds, 1);
    number_add(m, m->numbers[1], "images_per_s", facts->images_per_s, 1);
    text_add(m, RUN_META_REASON, facts->reason);
    number_add(m, m->numbers[2], "val_acc", facts->val_accuracy, 6);
    number_add(m, m->numbers[3], RUN_META_TEST_ACC, facts->test_accuracy, 6);
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

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

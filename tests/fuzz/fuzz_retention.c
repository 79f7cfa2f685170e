/* Policies: any text parses or is refused with its place; what parses keeps the same again when applied to the rest. */
#include "fuzz.h"

#include "retention.h"

#include <stdlib.h>
#include <string.h>

#define ITEMS 12
#define HOUR  3600
#define NOW   (INT64_C(255) * HOUR * ITEMS)

static void items_make(retention_item items[ITEMS], const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < ITEMS; i++) {
        const uint8_t byte = size ? data[i % size] : 0;
        items[i] = (retention_item){.step = (int64_t)byte * (int64_t)(ITEMS - i) - 1,
                                    .time = (int64_t)byte * HOUR * (int64_t)(ITEMS - i),
                                    .tagged = byte & 1,
                                    .has_epoch = byte & 4,
                                    .epoch = (double)byte / 4 * (double)(ITEMS - i)};
        for (size_t k = 0; k < RETENTION_METRICS_MAX; k++) {
            items[i].values[k].has = (byte >> k & 1) == 0;
            items[i].values[k].value = (double)(uint8_t)(byte << k);
        }
    }
}

/* What was kept is kept when prune runs a second time. */
static void check_settled(const retention_policy *policy, const retention_item *items)
{
    ckpt_prune_row rows[ITEMS] = {0}, again[ITEMS] = {0};
    retention_item kept[ITEMS];
    size_t count = 0;
    CHECK(retention_apply(rows, policy, items, ITEMS, NOW, NULL) == 0);
    for (size_t i = 0; i < ITEMS; i++) {
        CHECK(rows[i].reason[0] && memchr(rows[i].reason, 0, sizeof rows[i].reason));
        if (rows[i].keep)
            kept[count++] = items[i];
    }
    CHECK(retention_apply(again, policy, kept, count, NOW, NULL) == 0);
    for (size_t i = 0; i < count; i++)
        CHECK(again[i].keep);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = malloc(size + 1);
    retention_policy policy;
    metric m;
    ckpt_error err = {0};
    retention_item items[ITEMS];
    CHECK(text);
    memcpy(text, data, size);
    text[size] = 0;
    if (metric_parse(&m, text, NULL))
        m = (metric){"val_acc", true};
    items_make(items, data, size);
    if (retention_parse(&policy, text, &m, &err) == 0) {
        CHECK(policy.rule_count >= 1 && policy.rule_count <= RETENTION_RULES_MAX);
        CHECK(policy.metric_count >= 1 && policy.metric_count <= RETENTION_METRICS_MAX);
        check_settled(&policy, items);
    } else
        CHECK(err.code == CKPT_EUSAGE && strstr(err.message, ": at "));
    free(text);
    return 0;
}

/* Snapshots: what is read can be shown and written again, under the same id unless it has members of a later version.
 */
#include "fuzz.h"

#include "snapshot.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

static void check_limits(const snapshot *s)
{
    CHECK(s->step >= CKPT_STEP_NONE);
    CHECK(s->message && text_is_clean(s->message, true));
    CHECK(s->meta_count <= CKPT_META_PAIRS_MAX);
    size_t bytes = strlen(s->message);
    for (size_t i = 0; i < s->meta_count; i++) {
        CHECK(text_is_clean(s->meta[i].value, true));
        CHECK(i == 0 || strcmp(s->meta[i - 1].key, s->meta[i].key) < 0);
        bytes += strlen(s->meta[i].key) + strlen(s->meta[i].value);
    }
    CHECK(bytes <= CKPT_META_BYTES_MAX);
}

/* Writing it gives a snapshot that reads as the same. */
static void check_again(snapshot *s)
{
    char *text = NULL;
    size_t size = 0;
    snapshot again;
    CHECK(snapshot_encode(&text, &size, s, NULL) == 0);
    CHECK(snapshot_decode(&again, text, size, NULL) == 0);
    CHECK(sha256_compare(&again.id, &s->id) == 0);
    CHECK(again.sequence == s->sequence && again.step == s->step && again.meta_count == s->meta_count);
    CHECK(strcmp(again.message, s->message) == 0);
    snapshot_clear(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    snapshot s;
    if (snapshot_decode(&s, (const char *)data, size, NULL) == 0) {
        check_limits(&s);
        check_again(&s);
    } else
        CHECK(!s.message && !s.meta);
    snapshot_clear(&s);
    return 0;
}

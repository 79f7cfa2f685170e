#include "store_internal.h"

#include "clock.h"
#include "fail.h"
#include "lease.h"
#include "random.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LEASE_SUFFIX     ".lease"
#define NAMES_SUFFIX     ".packs"
#define PRUNE_LEASE      "prune" LEASE_SUFFIX
#define INTENT_GLANCE_MS 5000
#define INTENT_STEM_SIZE 17 /* 64 random bits in hexadecimal */
#define INTENT_COUNT_MAX 4096
#define INTENT_LINE      SHA256_HEX_SIZE /* 64 digits and a line end */
#define INTENT_POLL_MS   20
#define INTENT_NOTE_MS   1000 /* of waiting, until the person is told */
#define PRUNE_WAIT_MS    2000 /* longer than a tag takes, shorter than another prune */

struct intent {
    const ckpt_store *store;
    lease *lease;
    char names_path[FILE_PATH_MAX];
    sha256 *packs; /* for intent_check; sorted */
    size_t count;
    bool named; /* the file of names is there */
};

struct prune_guard {
    lease *lease;
    sha256 *names; /* packs and snapshots named by live intents; sorted */
    size_t name_count, writers;
    bool unnamed;     /* a live intent names nothing yet */
    int64_t named_at; /* when the live intent that is silent for longest named its packs */
};

static int hash_compare(const void *a, const void *b)
{
    return sha256_compare(a, b);
}

/* ---- The lease `prune` ------------------------------------------------------------------------------------------ */

/* Waiting for others, which the caller can end and which ends by itself. */
typedef struct patience {
    const ckpt_store *store;
    uint64_t start_ms, end_ms; /* of clock_ms */
    bool told;
} patience;

static patience patience_new(const ckpt_store *store, uint64_t limit_ms)
{
    const uint64_t now_ms = clock_ms();

    return (patience){store, now_ms, now_ms + limit_ms, false};
}

static int patience_ask(void *payload, const lease_state *holder, ckpt_error *err)
{
    int rc = 0;
    patience *const p = payload;
    const uint64_t now_ms = clock_ms();
    const char *const host = holder->host[0] ? holder->host : "an unknown host";

    if (now_ms >= p->end_ms) {
        rc = error_set(err, CKPT_EBUSY, "process %llu of %s holds the store for more than %d s",
                       (unsigned long long)holder->pid, host, INTENT_WAIT_MS / 1000);
        error_hint(err, "wait until it has ended; only if it is gone, remove %s/" PRUNE_LEASE, p->store->intents_dir);
        goto out;
    }
    if (!p->told && now_ms - p->start_ms >= INTENT_NOTE_MS) {
        p->told = true;
        store_note(p->store, "waiting for process %llu of %s, which holds the store", (unsigned long long)holder->pid,
                   host);
    }
    FAIL_IF(p->store->progress && p->store->progress(p->store->payload, 0, 0), err, CKPT_EINTERRUPTED, "interrupted");
out:
    return rc;
}

int prune_lease_take(lease **out, const ckpt_store *store, uint32_t wait_ms, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    patience p = patience_new(store, INTENT_WAIT_MS);

    TRY(path_join(path, store->intents_dir, PRUNE_LEASE, err));
    TRY(lease_acquire(out, path, &(lease_options){.wait_ms = wait_ms, .waiting = patience_ask, .payload = &p}, err));
out:
    return rc;
}

static int prune_wait(const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    const char *const paths[] = {path};
    patience p = patience_new(store, INTENT_WAIT_MS);
    const struct timespec pause = {.tv_nsec = INTENT_POLL_MS * 1000000};
    lease_state state;

    TRY(path_join(path, store->intents_dir, PRUNE_LEASE, err));
    for (;;) {
        TRY(lease_probe(&state, paths, 1, &(lease_options){.waiting = patience_ask, .payload = &p}, err));
        if (state.status != LEASE_HELD)
            break;
        TRY(patience_ask(&p, &state, err));
        nanosleep(&pause, NULL);
    }
out:
    return rc;
}

/* ---- A writer's intent ------------------------------------------------------------------------------------------ */

/* intents/<stem><suffix> */
static int intent_path(char out[FILE_PATH_MAX], const ckpt_store *store, const char *stem, const char *suffix,
                       ckpt_error *err)
{
    char name[INTENT_STEM_SIZE + sizeof LEASE_SUFFIX];

    snprintf(name, sizeof name, "%s%s", stem, suffix);
    return path_join(out, store->intents_dir, name, err);
}

int intent_open(intent **out, ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    char stem[INTENT_STEM_SIZE], path[FILE_PATH_MAX];
    uint64_t random;
    intent *in = calloc(1, sizeof *in);

    *out = NULL;
    FAIL_IF_NULL(in, err);
    in->store = store;
    TRY(random_u64(&random, err));
    snprintf(stem, sizeof stem, "%016" PRIx64, random);
    TRY(intent_path(in->names_path, store, stem, NAMES_SUFFIX, err));
    TRY(intent_path(path, store, stem, LEASE_SUFFIX, err));
    /* Nobody else knows this name, but a prune may hold it for a moment to see whether we live. */
    TRY(lease_acquire(&in->lease, path, &(lease_options){.wait_ms = INTENT_GLANCE_MS}, err));
    /* Published first, then looked: a prune that this does not see will see the intent. */
    TRY(prune_wait(store, err));
    *out = in;
    in = NULL;
out:
    intent_close(in);
    return rc;
}

/* Appends the names of packs, one line each. Closing makes them visible on other machines too (NFS); nothing is synced,
 * as after a power cut there is no writer that they could protect. */
static int names_append(const intent *in, const sha256 *packs, size_t count, ckpt_error *err)
{
    int rc = 0, fd;
    char *const text = malloc(count * INTENT_LINE + 1);

    do
        fd = open(in->names_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        rc = error_errno(err, errno, "create %s", in->names_path);
        goto out;
    }
    FAIL_IF_NULL(text, err);
    for (size_t i = 0; i < count; i++) {
        sha256_hex(text + i * INTENT_LINE, &packs[i]);
        text[(i + 1) * INTENT_LINE - 1] = '\n';
    }
    TRY(file_write(fd, text, count * INTENT_LINE, in->names_path, err));
    const int failed = close(fd);
    fd = -1;
    if (failed && errno != EINTR)
        rc = error_errno(err, errno, "close %s", in->names_path);
out:
    file_close(&fd);
    free(text);
    return rc;
}

static bool intent_names(const intent *in, const sha256 *name)
{
    return in->count > 0 && bsearch(name, in->packs, in->count, sizeof *in->packs, hash_compare) != NULL;
}

/* Tells all of names, and waits until no prune is at work that may not have heard. */
static int names_publish(intent *in, const sha256 *names, size_t count, ckpt_error *err)
{
    int rc = 0;

    if (count == 0 && in->named)
        goto out;
    TRY(names_append(in, names, count, err));
    in->named = true;
    TRY(prune_wait(in->store, err));
out:
    return rc;
}

/* Adds packs to those that intent_check looks for. */
static int names_remember(intent *in, const sha256 *packs, size_t count, ckpt_error *err)
{
    int rc = 0;
    sha256 *grown;

    FAIL_IF(count > INTENT_PACKS_MAX - in->count, err, CKPT_EUSAGE, "a checkpoint may refer to at most %u packs",
            INTENT_PACKS_MAX);
    grown = realloc(in->packs, (in->count + count + 1) * sizeof *grown);
    FAIL_IF_NULL(grown, err);
    in->packs = grown;
    memcpy(in->packs + in->count, packs, count * sizeof *packs);
    in->count += count;
    qsort(in->packs, in->count, sizeof *in->packs, hash_compare);
out:
    return rc;
}

int intent_add(intent *in, const sha256 *packs, size_t count, ckpt_error *err)
{
    int rc = 0;

    TRY(names_publish(in, packs, count, err));
    if (count > 0)
        TRY(names_remember(in, packs, count, err));
out:
    return rc;
}

/* Is the pack there? *there is false when it is gone. */
static int pack_look(bool *there, const ckpt_store *store, const sha256 *name, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    struct stat st;

    TRY(pack_path(path, store->packs_dir, name, err));
    TRY(pack_file_look(there, &st, path, err));
out:
    return rc;
}

int intent_take(intent *in, const sha256 *packs, size_t count, ckpt_error *err)
{
    int rc = 0;
    bool there;
    char hex[SHA256_HEX_SIZE];
    size_t fresh = 0;
    sha256 *const unknown = calloc(count + 1, sizeof *unknown);

    FAIL_IF_NULL(unknown, err);
    for (size_t i = 0; i < count; i++)
        if (!intent_names(in, &packs[i]))
            unknown[fresh++] = packs[i];
    TRY(names_publish(in, unknown, fresh, err));
    /* Now that all know the names, what is there stays. */
    for (size_t i = 0; i < fresh; i++) {
        TRY(pack_look(&there, in->store, &unknown[i], err));
        sha256_hex(hex, &unknown[i]);
        FAIL_IF(!there, err, CKPT_ENOTFOUND, "the pack %.8s was pruned a moment ago", hex);
    }
    TRY(names_remember(in, unknown, fresh, err));
out:
    free(unknown);
    return rc;
}

int intent_keep(intent *in, const sha256 *snapshot_id, ckpt_error *err)
{
    return names_publish(in, snapshot_id, 1, err);
}

int intent_check(intent *in, ckpt_error *err)
{
    int rc = 0;
    bool there;
    char hex[SHA256_HEX_SIZE];

    for (size_t i = 0; i < in->count; i++) {
        TRY(pack_look(&there, in->store, &in->packs[i], err));
        if (!there) {
            sha256_hex(hex, &in->packs[i]);
            rc = error_set(err, CKPT_EDATA, "the pack %.8s was removed while it was being used", hex);
            error_hint(err, "save again; if it stays, `ckpt verify` tells more");
            goto out;
        }
    }
    /* Last: a writer that was frozen so long that prune forgot it cannot trust what it just saw. */
    TRY(lease_check(in->lease, err));
out:
    return rc;
}

void intent_close(intent *in)
{
    if (!in)
        return;
    if (in->names_path[0])
        (void)unlink(in->names_path); /* a name without its lease means nothing, so no fsync */
    lease_release(in->lease);
    free(in->packs);
    free(in);
}

/* ---- What prune sees -------------------------------------------------------------------------------------------- */

/* Stems of the files in intents/ that end in a suffix. */
typedef struct stem_list {
    const char *suffix;
    size_t count;
    char stems[INTENT_COUNT_MAX][INTENT_STEM_SIZE];
} stem_list;

static int stem_add(void *payload, const char *file, ckpt_error *err)
{
    stem_list *const list = payload;
    const size_t length = INTENT_STEM_SIZE - 1;

    if (strlen(file) != length + strlen(list->suffix) || strspn(file, "0123456789abcdef") != length ||
        strcmp(file + length, list->suffix) != 0)
        return 0;
    if (list->count == INTENT_COUNT_MAX)
        return error_set(err, CKPT_EBUSY, "more than %d saves at once", INTENT_COUNT_MAX);
    memcpy(list->stems[list->count], file, length);
    list->stems[list->count++][length] = 0;
    return 0;
}

static int stem_list_new(stem_list **out, const ckpt_store *store, const char *suffix, ckpt_error *err)
{
    int rc = 0;
    stem_list *list = calloc(1, sizeof *list);

    FAIL_IF_NULL(list, err);
    list->suffix = suffix;
    TRY(dir_each(store->intents_dir, stem_add, list, err));
    *out = list;
    list = NULL;
out:
    free(list);
    return rc;
}

/* How the leases of all listed intents stand, in one look, as where counters decide a look takes time. */
static int stems_probe(lease_state *states, const stem_list *list, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    char(*paths)[FILE_PATH_MAX] = calloc(list->count ? list->count : 1, sizeof *paths);
    const char **pointers = calloc(list->count ? list->count : 1, sizeof *pointers);
    patience p = patience_new(store, 2 * LEASE_STALE_MS_MAX); /* longer than a look takes */

    FAIL_IF_NULL(paths, err);
    FAIL_IF_NULL(pointers, err);
    for (size_t i = 0; i < list->count; i++) {
        TRY(intent_path(paths[i], store, list->stems[i], list->suffix, err));
        pointers[i] = paths[i];
    }
    if (list->count > 0)
        TRY(lease_probe(states, pointers, list->count, &(lease_options){.waiting = patience_ask, .payload = &p}, err));
out:
    free(pointers);
    free(paths);
    return rc;
}

/* A line that is not all there belongs to a writer that is just adding it, and that will wait for us. */
static int guard_add_names(prune_guard *guard, const char *text, size_t size, const char *path, ckpt_error *err)
{
    int rc = 0;
    const size_t count = size / INTENT_LINE;
    sha256 *const grown = realloc(guard->names, (guard->name_count + count + 1) * sizeof *grown);

    FAIL_IF_NULL(grown, err);
    guard->names = grown;
    for (size_t i = 0; i < count; i++) {
        char hex[SHA256_HEX_SIZE];
        memcpy(hex, text + i * INTENT_LINE, sizeof hex);
        hex[sizeof hex - 1] = 0;
        FAIL_IF(sha256_parse(&guard->names[guard->name_count], hex, NULL), err, CKPT_EDATA, "%s is damaged", path);
        guard->name_count++;
    }
out:
    return rc;
}

/* Adds what a live intent protects. */
static int guard_add_live(prune_guard *guard, const ckpt_store *store, const char *stem, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    char *text = NULL;
    size_t size;
    struct stat st;

    guard->writers++;
    TRY(intent_path(path, store, stem, NAMES_SUFFIX, err));
    if (stat(path, &st)) {
        guard->unnamed = true; /* whatever the reason: the safe answer */
        goto out;
    }
    if (guard->writers == 1 || st.st_mtime < guard->named_at)
        guard->named_at = st.st_mtime;
    rc = file_read_all(&text, &size, path, (size_t)INTENT_PACKS_MAX * INTENT_LINE, err);
    if (rc == CKPT_ENOTFOUND) { /* it has just ended; what it saved may be too new for us to know */
        guard->unnamed = true;
        rc = 0;
    }
    TRY(rc);
    if (text)
        TRY(guard_add_names(guard, text, size, path, err));
out:
    free(text);
    return rc;
}

static int intent_remove(const ckpt_store *store, const char *stem, const char *suffix, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];

    TRY(intent_path(path, store, stem, suffix, err));
    TRY(file_remove(path, err));
out:
    return rc;
}

/* Removes an intent that looked left over. It is taken first: its writer may have made the file and not have locked it
 * when it was looked at, and would then be *alive. */
static int intent_bury(bool *alive, const ckpt_store *store, const char *stem, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    lease *taken = NULL;

    TRY(intent_path(path, store, stem, LEASE_SUFFIX, err));
    rc = lease_acquire(&taken, path, NULL, err);
    *alive = rc == CKPT_EBUSY;
    if (*alive)
        rc = error_clear(err);
    TRY(rc);
    if (!taken)
        goto out;
    /* The names first: a lease that is left alone is found again. */
    TRY(intent_remove(store, stem, NAMES_SUFFIX, err));
    TRY(intent_remove(store, stem, LEASE_SUFFIX, err)); /* durably, which its release is not */
out:
    lease_release(taken);
    return rc;
}

static bool stem_listed(const stem_list *list, const char *stem)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->stems[i], stem) == 0)
            return true;
    return false;
}

/* Names whose lease is gone. No writer can be about to take one: it would wait for us before it names anything. */
static int orphans_remove(const stem_list *leases, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    stem_list *names = NULL;

    TRY(stem_list_new(&names, store, NAMES_SUFFIX, err));
    for (size_t i = 0; i < names->count; i++)
        if (!stem_listed(leases, names->stems[i]))
            TRY(intent_remove(store, names->stems[i], NAMES_SUFFIX, err));
out:
    free(names);
    return rc;
}

static int guard_read_intents(prune_guard *guard, const ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    stem_list *leases = NULL;
    lease_state *states = NULL;

    TRY(stem_list_new(&leases, store, LEASE_SUFFIX, err));
    states = calloc(leases->count ? leases->count : 1, sizeof *states);
    FAIL_IF_NULL(states, err);
    TRY(stems_probe(states, leases, store, err));
    for (size_t i = 0; i < leases->count; i++) {
        if (states[i].status == LEASE_HELD) {
            TRY(guard_add_live(guard, store, leases->stems[i], err));
            continue;
        }
        bool alive = false;
        TRY(intent_bury(&alive, store, leases->stems[i], err));
        if (alive)
            TRY(guard_add_live(guard, store, leases->stems[i], err));
    }
    TRY(orphans_remove(leases, store, err));
    if (guard->name_count > 1)
        qsort(guard->names, guard->name_count, sizeof *guard->names, hash_compare);
out:
    free(states);
    free(leases);
    return rc;
}

int prune_guard_open(prune_guard **out, ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    prune_guard *guard = calloc(1, sizeof *guard);

    *out = NULL;
    FAIL_IF_NULL(guard, err);
    TRY(prune_lease_take(&guard->lease, store, PRUNE_WAIT_MS, err));
    TRY(guard_read_intents(guard, store, err));
    *out = guard;
    guard = NULL;
out:
    prune_guard_close(guard);
    return rc;
}

static bool guard_names(const prune_guard *guard, const sha256 *name)
{
    return guard->name_count > 0 &&
           bsearch(name, guard->names, guard->name_count, sizeof *guard->names, hash_compare) != NULL;
}

bool prune_guard_protects(const prune_guard *guard, const sha256 *name, int64_t pack_mtime)
{
    if (guard->writers == 0)
        return false;
    if (guard->unnamed || pack_mtime >= guard->named_at)
        return true;
    return guard_names(guard, name);
}

bool prune_guard_keeps(const prune_guard *guard, const sha256 *snapshot_id)
{
    return guard_names(guard, snapshot_id);
}

size_t prune_guard_writers(const prune_guard *guard)
{
    return guard->writers;
}

int prune_guard_check(const prune_guard *guard, ckpt_error *err)
{
    return lease_check(guard->lease, err);
}

void prune_guard_close(prune_guard *guard)
{
    if (!guard)
        return;
    lease_release(guard->lease);
    free(guard->names);
    free(guard);
}

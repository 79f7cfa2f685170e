/* The background writer: see <ckpt/store.h>.
 *
 *   submit ──> jobs[i] is being filled ──> staged ──> in flight ──> kept ──> free again
 *
 * Of the three jobs at most one is in each of these states (one that is filled takes the place of the staged one), so
 * that a state always finds memory that nobody reads. That memory was faulted in when it was first used. The kept one
 * is the state committed last, which the next is coded against. */
#include "save_internal.h"

#include "clock.h"
#include "fail.h"
#include "thread.h"

#include <stdlib.h>
#include <string.h>

/* Our own copy of what was submitted, but for the bytes of the tensors. */
typedef struct request {
    char *file_name;
    ckpt_tensor *tensors;
    size_t tensor_count;
    ckpt_value *values;
    size_t value_count;
    char *message, *tag;
    ckpt_value *meta;
    char **drop;
    ckpt_save_options options; /* into the copies above */
    ckpt_importance importance;
} request;

#define JOBS       3
#define JOBS_USUAL 2  /* as long as no save is slower than the rhythm they come in */
#define ROOM_SHARE 16 /* memory is larger than a state by this share of it, since a history in it grows */

typedef struct job {
    request request; /* data of its tensors point into: */
    unsigned char *memory;
    size_t memory_size; /* kept from request to request */
} job;

/* A prune that was asked for. */
typedef struct prune_request {
    bool wanted;
    char *keep;        /* or NULL: the policy of the config */
    char *key, *value; /* of the checkpoints that it is about, or NULL: of all */
} prune_request;

static void prune_request_clear(prune_request *p)
{
    free(p->keep);
    free(p->key);
    free(p->value);
    *p = (prune_request){0};
}

struct ckpt_writer {
    ckpt_store *store; /* the thread's own */
    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    job jobs[JOBS];
    job *filling, *staged, *in_flight, *kept; /* into jobs, or NULL */
    save_carry carry;                         /* the thread's own; of what is kept */
    prune_request prune_next;                 /* once nothing is in flight */
    prune_request prune_later;                /* once the staged one has been written */
    bool pruning, stop;
    int rc; /* the failure that nobody has been told of yet */
    ckpt_error err;
    const char *failed; /* "save" or "prune" */
    ckpt_writer_stats stats;
};

/* ---- A request and its bytes ---- */

static void values_free(ckpt_value *values, size_t count)
{
    for (size_t i = 0; values && i < count; i++) {
        free((char *)(uintptr_t)values[i].key);
        free((char *)(uintptr_t)values[i].value);
    }
    free(values);
}

static int values_copy(ckpt_value **out, const ckpt_value *values, size_t count, ckpt_error *err)
{
    int rc = 0;
    ckpt_value *copy = calloc(count + 1, sizeof *copy);

    FAIL_IF_NULL(copy, err);
    for (size_t i = 0; i < count; i++) {
        copy[i] = (ckpt_value){strdup(values[i].key), strdup(values[i].value)};
        FAIL_IF_NULL(copy[i].key && copy[i].value, err);
    }
    *out = copy;
    copy = NULL;
out:
    values_free(copy, count);
    return rc;
}

static int text_copy(char **out, const char *text, ckpt_error *err)
{
    *out = text ? strdup(text) : NULL;
    return text && !*out ? error_memory(err) : 0;
}

static void request_clear(request *r)
{
    for (size_t i = 0; i < r->tensor_count; i++)
        free((char *)(uintptr_t)r->tensors[i].name);
    free(r->tensors);
    values_free(r->values, r->value_count);
    values_free(r->meta, r->options.meta_count);
    for (size_t i = 0; r->drop && i < r->options.drop_count; i++)
        free(r->drop[i]);
    free(r->drop);
    free(r->file_name);
    free(r->message);
    free(r->tag);
    *r = (request){0};
}

/* Refuses what the save would refuse later, when nobody listens. */
static int request_check(const char *file_name, const ckpt_tensor *tensors, size_t count, const ckpt_value *values,
                         size_t value_count, const ckpt_save_options *options, ckpt_error *err)
{
    int rc = 0;
    char *header = NULL;
    size_t header_size = 0;

    TRY(save_request_check(file_name, options, err));
    TRY(safetensors_header(&header, &header_size, tensors, count, values, value_count, err));
out:
    free(header);
    return rc;
}

/* The tensors' data still point to the caller's. */
static int request_copy(request *r, const char *file_name, const ckpt_tensor *tensors, size_t count,
                        const ckpt_value *values, size_t value_count, const ckpt_save_options *options, ckpt_error *err)
{
    int rc = 0;

    r->tensors = calloc(count + 1, sizeof *r->tensors);
    FAIL_IF_NULL(r->tensors, err);
    for (size_t i = 0; i < count; i++) {
        r->tensors[i] = tensors[i];
        r->tensors[i].name = strdup(tensors[i].name);
        r->tensor_count = i + 1;
        FAIL_IF_NULL(r->tensors[i].name, err);
    }
    TRY(values_copy(&r->values, values, value_count, err));
    r->value_count = value_count;
    TRY(values_copy(&r->meta, options->meta, options->meta_count, err));
    r->options = *options;
    r->drop = calloc(options->drop_count + 1, sizeof *r->drop);
    FAIL_IF_NULL(r->drop, err);
    for (size_t i = 0; i < options->drop_count; i++)
        TRY(text_copy(&r->drop[i], options->drop[i], err));
    r->options.drop = (const char *const *)r->drop;
    TRY(text_copy(&r->message, options->message, err));
    TRY(text_copy(&r->tag, options->tag, err));
    TRY(text_copy(&r->file_name, file_name, err));
    r->options.meta = r->meta;
    r->options.message = r->message;
    r->options.tag = r->tag;
out:
    return rc;
}

/* Makes room for a state. Where there is no memory the job stays as it was; else its old state is no longer valid. */
static int job_reserve(job *j, size_t size, ckpt_error *err)
{
    int rc = 0;

    if (size > j->memory_size) {
        const size_t room = size + size / ROOM_SHARE;
        unsigned char *const grown = realloc(j->memory, room);
        FAIL_IF_NULL(grown, err);
        /* The first touch of fresh pages costs far more than the copy. */
        memset(grown + j->memory_size, 0, room - j->memory_size);
        j->memory = grown;
        j->memory_size = room;
    }
out:
    return rc;
}

/* Takes the request over, in the place of the one that the job may hold. Where it fails nothing has changed. */
static int job_fill(job *j, request *r, ckpt_error *err)
{
    int rc = 0;
    uint64_t size = 0, at = 0;

    for (size_t i = 0; i < r->tensor_count; i++)
        size += tensor_bytes(&r->tensors[i]);
    TRY(job_reserve(j, (size_t)size, err));
    request_clear(&j->request);
    j->request = *r;
    *r = (request){0};
    for (size_t i = 0; i < j->request.tensor_count; i++) { /* those without bytes keep a pointer that nobody follows */
        ckpt_tensor *const t = &j->request.tensors[i];
        const uint64_t n = tensor_bytes(t);
        if (n == 0)
            continue;
        memcpy(j->memory + at, t->data, (size_t)n);
        t->data = j->memory + at;
        at += n;
    }
out:
    return rc;
}

/* ---- The thread ---- */

/* With the lock held. Of several failures the first is the one that explains the others. */
static void failure_keep(ckpt_writer *w, const char *what, int rc, const ckpt_error *err)
{
    if (w->rc)
        return;
    w->rc = rc;
    w->err = *err;
    w->failed = what;
}

/* With the lock held, which is let go meanwhile: writes the staged job. */
static void writer_save(ckpt_writer *w)
{
    request *const r = &w->staged->request;
    ckpt_error err = {0};
    ckpt_save_result result = {0};

    w->in_flight = w->staged;
    w->staged = NULL;
    w->prune_next = w->prune_later;
    w->prune_later = (prune_request){0};
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    const int rc = save_tensors(&result, w->store, r->file_name, r->tensors, r->tensor_count, r->values, r->value_count,
                                &r->options, &w->carry, &err);
    pthread_mutex_lock(&w->lock);
    request_clear(r);
    if (rc) {
        w->stats.failed++;
        failure_keep(w, "save", rc, &err);
    } else {
        w->kept = w->in_flight; /* the carry refers to its memory from now on */
        w->stats.committed++;
        w->stats.last = result;
        w->stats.raw_bytes += result.raw_bytes;
        w->stats.stored_bytes += result.stored_bytes;
    }
    w->in_flight = NULL;
}

/* With the lock held, which is let go meanwhile. */
static void writer_prune(ckpt_writer *w)
{
    prune_request p = w->prune_next;
    const ckpt_value among = {p.key, p.value};
    const ckpt_prune_options options = {.size = sizeof options, .keep = p.keep, .among = p.key ? &among : NULL};
    ckpt_prune_result result = {0};
    ckpt_error err = {0};

    w->prune_next = (prune_request){0};
    w->pruning = true;
    pthread_mutex_unlock(&w->lock);
    const int rc = ckpt_prune(&result, w->store, &options, &err);
    prune_request_clear(&p);
    pthread_mutex_lock(&w->lock);
    if (rc && rc != CKPT_EBUSY)
        failure_keep(w, "prune", rc, &err);
    w->stats.pruned_checkpoints += result.removed_checkpoints;
    w->stats.pruned_bytes += result.freed_bytes;
    ckpt_prune_result_clear(&result);
    w->pruning = false;
}

static void *writer_main(void *payload)
{
    ckpt_writer *const w = payload;

    thread_give_way(); /* before it starts the store's pool */
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->prune_next.wanted && !w->staged && !w->stop)
            pthread_cond_wait(&w->changed, &w->lock);
        if (w->prune_next.wanted)
            writer_prune(w);
        else if (w->staged)
            writer_save(w);
        else
            break;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* With the lock held: hands the untold failure over. */
static int take_failure(ckpt_writer *w, ckpt_error *err)
{
    const int rc = w->rc;

    if (rc && err)
        *err = w->err;
    w->rc = 0;
    return rc;
}

/* The same for who waits: of a save, that is expected, of a prune it is said. */
static int take_late_failure(ckpt_writer *w, ckpt_error *err)
{
    const bool of_prune = w->rc && strcmp(w->failed, "prune") == 0;
    const int rc = take_failure(w, err);

    if (of_prune)
        error_prefix(err, "a prune failed");
    return rc;
}

int ckpt_writer_open(ckpt_writer **out, const char *store_path, const ckpt_open_options *options, ckpt_error *err)
{
    int rc = 0;
    ckpt_writer *w = calloc(1, sizeof *w);

    FAIL_IF_NULL(w, err);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    TRY(ckpt_store_open(&w->store, store_path, options, err));
    TRY(thread_start(&w->thread, writer_main, w, err));
    w->thread_runs = true;
    *out = w;
    w = NULL;
out:
    if (w)
        (void)ckpt_writer_close(w, NULL);
    return rc;
}

int ckpt_writer_reserve(ckpt_writer *writer, uint64_t bytes, ckpt_error *err)
{
    int rc = 0;

    pthread_mutex_lock(&writer->lock);
    FAIL_IF(writer->stats.submitted > 0, err, CKPT_EUSAGE, "memory is reserved before the first state is submitted");
    FAIL_IF(bytes > SIZE_MAX / 2, err, CKPT_ENOMEM, "no address space has room for a state of that size");
    for (size_t i = 0; i < JOBS_USUAL; i++)
        TRY(job_reserve(&writer->jobs[i], (size_t)bytes, err));
out:
    pthread_mutex_unlock(&writer->lock);
    return rc;
}

/* With the lock held: one that is nowhere on the way, the one with most memory. */
static job *job_free(ckpt_writer *w)
{
    job *best = NULL;

    for (size_t i = 0; i < JOBS; i++) {
        job *const j = &w->jobs[i];
        if (j != w->in_flight && j != w->kept && (!best || j->memory_size > best->memory_size))
            best = j;
    }
    return best;
}

/* With the lock held: the job to fill, which may be the staged one, to be replaced; NULL when the new state is to be
 * dropped. Waits where the rules say so, and for another thread that fills one. */
static job *job_acquire(ckpt_writer *w, ckpt_importance importance)
{
    for (;;) {
        const job *const staged = w->staged;
        if (!staged && !w->filling)
            return job_free(w);
        if (staged) {
            const ckpt_importance other = staged->request.importance;
            if (other == CKPT_ORDINARY || (other == CKPT_BEST && importance == CKPT_BEST))
                return w->staged;
            if (importance == CKPT_ORDINARY)
                return NULL;
        }
        pthread_cond_wait(&w->changed, &w->lock);
    }
}

/* Stages a checked request by the rules; takes it over, or leaves it when it is dropped or fails. */
static int request_stage(ckpt_writer *w, request *r, ckpt_error *err)
{
    int rc = 0;

    pthread_mutex_lock(&w->lock);
    w->stats.submitted++;
    job *const j = job_acquire(w, r->importance);
    const bool replaces = j && j == w->staged;
    if (replaces)
        w->staged = NULL; /* the thread must not take it while it changes */
    if (j) {
        w->filling = j;
        pthread_mutex_unlock(&w->lock);
        rc = job_fill(j, r, err);
        pthread_mutex_lock(&w->lock);
        w->filling = NULL;
        if (rc == 0 || replaces) /* what was staged survives a failure */
            w->staged = j;
    }
    w->stats.dropped += !j;
    w->stats.failed += rc != 0;
    w->stats.replaced += replaces && rc == 0;
    if (rc == 0) {
        rc = take_failure(w, err);
        if (rc)
            error_prefix(err, "an earlier %s failed", w->failed);
    }
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

int ckpt_writer_submit(ckpt_writer *writer, const char *file_name, const ckpt_tensor *tensors, size_t count,
                       const ckpt_value *values, size_t value_count, const ckpt_save_options *options,
                       ckpt_importance importance, ckpt_error *err)
{
    int rc = 0;
    const double start = clock_seconds();
    ckpt_save_options own_options = CKPT_SAVE_OPTIONS_INIT;
    request r = {.importance = importance};

    file_name = file_name ? file_name : SAVE_FILE_NAME;
    TRY(store_options(&own_options, sizeof own_options, options, err));
    TRY(request_check(file_name, tensors, count, values, value_count, &own_options, err));
    TRY(request_copy(&r, file_name, tensors, count, values, value_count, &own_options, err));
    rc = request_stage(writer, &r, err);
    pthread_mutex_lock(&writer->lock);
    writer->stats.blocked_seconds += clock_seconds() - start;
    pthread_mutex_unlock(&writer->lock);
out:
    request_clear(&r);
    return rc;
}

int ckpt_writer_prune(ckpt_writer *writer, const char *keep, const ckpt_value *among, ckpt_error *err)
{
    int rc = 0;
    prune_request p = {.wanted = true};

    if (keep)
        TRY(ckpt_policy_check(keep, err));
    TRY(text_copy(&p.keep, keep, err));
    TRY(text_copy(&p.key, among ? among->key : NULL, err));
    TRY(text_copy(&p.value, among ? among->value : NULL, err));
    pthread_mutex_lock(&writer->lock);
    prune_request *const slot = writer->staged ? &writer->prune_later : &writer->prune_next;
    prune_request_clear(slot);
    *slot = p;
    p = (prune_request){0};
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
out:
    prune_request_clear(&p);
    return rc;
}

/* With the lock held. A prune that waits for a staged save needs no look of its own. */
static bool is_idle(const ckpt_writer *w)
{
    return !w->filling && !w->staged && !w->in_flight && !w->prune_next.wanted && !w->pruning;
}

int ckpt_writer_wait(ckpt_writer *writer, ckpt_error *err)
{
    pthread_mutex_lock(&writer->lock);
    while (!is_idle(writer))
        pthread_cond_wait(&writer->changed, &writer->lock);
    const int rc = take_late_failure(writer, err);
    pthread_mutex_unlock(&writer->lock);
    return rc;
}

void ckpt_writer_stats_get(ckpt_writer_stats *out, ckpt_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    *out = writer->stats;
    pthread_mutex_unlock(&writer->lock);
}

int ckpt_writer_close(ckpt_writer *writer, ckpt_error *err)
{
    if (!writer)
        return 0;
    if (writer->thread_runs) {
        pthread_mutex_lock(&writer->lock);
        writer->stop = true; /* the staged one is still written */
        pthread_cond_broadcast(&writer->changed);
        pthread_mutex_unlock(&writer->lock);
        pthread_join(writer->thread, NULL);
    }
    const int rc = take_late_failure(writer, err);
    save_carry_clear(&writer->carry);
    for (size_t i = 0; i < JOBS; i++) {
        request_clear(&writer->jobs[i].request);
        free(writer->jobs[i].memory);
    }
    ckpt_store_close(writer->store);
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->lock);
    free(writer);
    return rc;
}

/* The background writer: see <ckpt/store.h>. Two states in memory, one in flight and one staged, each copied into
 * memory that was faulted in when it was first used. */
#include "save_internal.h"

#include "fail.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WRITER_SAVES_A_SET 64

typedef struct job {
    char *file_name;
    ckpt_tensor *tensors; /* data point into `memory`, names into `text` */
    size_t tensor_count;
    ckpt_value *values;
    size_t value_count;
    char *message, *tag;
    ckpt_value *meta;
    ckpt_save_options options;
    ckpt_importance importance;
    unsigned char *memory; /* kept from job to job */
    size_t memory_size;
} job;

struct ckpt_writer {
    ckpt_store *store; /* the thread's own */
    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    job jobs[2];
    job *staged, *in_flight; /* into jobs, or NULL */
    bool stop;
    int rc; /* the failure that nobody has been told of yet */
    ckpt_error err;
    ckpt_writer_stats stats;
};

/* ---- A job's own copy of what was submitted ---- */

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
        FAIL_IF(!copy[i].key || !copy[i].value, err, CKPT_ENOMEM, "out of memory");
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

/* Frees all but the memory, which the next job uses again. */
static void job_clear(job *j)
{
    for (size_t i = 0; j->tensors && i < j->tensor_count; i++)
        free((char *)(uintptr_t)j->tensors[i].name);
    free(j->tensors);
    values_free(j->values, j->value_count);
    values_free(j->meta, j->options.meta_count);
    free(j->file_name);
    free(j->message);
    free(j->tag);
    *j = (job){.memory = j->memory, .memory_size = j->memory_size};
}

static int tensor_size(size_t *size, const ckpt_tensor *t, ckpt_error *err)
{
    size_t n = ckpt_dtype_size(t->dtype);

    if (t->rank > CKPT_RANK_MAX)
        return error_set(err, CKPT_EUSAGE, "%s has more than %d dimensions", t->name, CKPT_RANK_MAX);
    for (unsigned i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(n, t->shape[i], &n))
            return error_set(err, CKPT_EUSAGE, "%s is too large", t->name);
    *size = n;
    return 0;
}

/* What a state takes in memory, and whether it is one at all. */
static int state_size(size_t *total, const ckpt_tensor *tensors, size_t count, ckpt_error *err)
{
    int rc = 0;
    size_t size = 0;

    *total = 0;
    for (size_t i = 0; i < count; i++) {
        FAIL_IF(!tensors[i].name, err, CKPT_EUSAGE, "a tensor has no name");
        TRY(tensor_size(&size, &tensors[i], err));
        FAIL_IF(__builtin_add_overflow(*total, size, total), err, CKPT_EUSAGE, "the state is too large");
    }
out:
    return rc;
}

static int job_reserve(job *j, size_t total, ckpt_error *err)
{
    int rc = 0;

    if (total > j->memory_size) {
        free(j->memory);
        j->memory_size = 0;
        j->memory = malloc(total);
        FAIL_IF_NULL(j->memory, err);
        j->memory_size = total;
        memset(j->memory, 0, total); /* the first touch of fresh pages costs far more than the copy */
    }
out:
    return rc;
}

static int job_fill(job *j, const char *file_name, const ckpt_tensor *tensors, size_t count, const ckpt_value *values,
                    size_t value_count, const ckpt_save_options *options, ckpt_importance importance, ckpt_error *err)
{
    int rc = 0;
    size_t at = 0, size = 0;

    j->tensors = calloc(count + 1, sizeof *j->tensors);
    FAIL_IF_NULL(j->tensors, err);
    for (size_t i = 0; i < count; i++) {
        TRY(tensor_size(&size, &tensors[i], err));
        j->tensors[i] = tensors[i];
        j->tensors[i].name = strdup(tensors[i].name);
        j->tensor_count = i + 1;
        FAIL_IF_NULL(j->tensors[i].name, err);
        j->tensors[i].data = j->memory + at;
        if (size)
            memcpy(j->memory + at, tensors[i].data, size);
        at += size;
    }
    TRY(values_copy(&j->values, values, value_count, err));
    j->value_count = value_count;
    TRY(values_copy(&j->meta, options->meta, options->meta_count, err));
    j->options = *options;
    TRY(text_copy(&j->message, options->message, err));
    TRY(text_copy(&j->tag, options->tag, err));
    TRY(text_copy(&j->file_name, file_name, err));
    j->options.meta = j->meta;
    j->options.message = j->message;
    j->options.tag = j->tag;
    j->importance = importance;
out:
    return rc;
}

/* ---- The thread ---- */

/* Packs that were read stay open with their tables; a writer that lives for days lets them go now and then. */
static void forget_packs(ckpt_store *store)
{
    pack_set *fresh = NULL;

    if (pack_set_new(&fresh, store->packs_dir, NULL))
        return;
    pack_set_free(store->packs);
    store->packs = fresh;
}

static void *writer_main(void *payload)
{
    ckpt_writer *const w = payload;
    unsigned saves = 0;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->staged && !w->stop)
            pthread_cond_wait(&w->changed, &w->lock);
        if (!w->staged)
            break;
        job *const j = w->in_flight = w->staged;
        w->staged = NULL;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);

        ckpt_error err = {0};
        ckpt_save_result result = {0};
        const int rc = ckpt_save_tensors(&result, w->store, j->file_name, j->tensors, j->tensor_count, j->values,
                                         j->value_count, &j->options, &err);
        if (++saves % WRITER_SAVES_A_SET == 0)
            forget_packs(w->store);

        pthread_mutex_lock(&w->lock);
        job_clear(j);
        if (rc) {
            w->stats.failed++;
            if (!w->rc) { /* the first is the one that explains the others */
                w->rc = rc;
                w->err = err;
            }
        } else {
            w->stats.committed++;
            w->stats.last = result;
        }
        w->in_flight = NULL;
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

int ckpt_writer_open(ckpt_writer **out, const char *store_path, const ckpt_open_options *options, ckpt_error *err)
{
    int rc = 0, failed = 0;
    sigset_t all, before;
    ckpt_writer *w = calloc(1, sizeof *w);

    FAIL_IF_NULL(w, err);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    TRY(ckpt_store_open(&w->store, store_path, options, err));
    /* Signals are for the program's own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&w->thread, NULL, writer_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        TRY(error_errno(err, failed, "start a thread"));
    w->thread_runs = true;
    *out = w;
    w = NULL;
out:
    if (w)
        (void)ckpt_writer_close(w, NULL);
    return rc;
}

/* With the lock held: the job to fill, or NULL when the new state is to be dropped. Waits where the rules say so. */
static job *job_acquire(ckpt_writer *w, ckpt_importance importance)
{
    while (w->staged) {
        const ckpt_importance staged = w->staged->importance;
        if (staged == CKPT_ORDINARY || (staged == CKPT_BEST && importance == CKPT_BEST)) {
            job *const j = w->staged;
            w->staged = NULL;
            w->stats.replaced++;
            job_clear(j);
            return j;
        }
        if (importance == CKPT_ORDINARY) {
            w->stats.dropped++;
            return NULL;
        }
        pthread_cond_wait(&w->changed, &w->lock);
    }
    return w->in_flight == &w->jobs[0] ? &w->jobs[1] : &w->jobs[0];
}

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int ckpt_writer_submit(ckpt_writer *writer, const char *file_name, const ckpt_tensor *tensors, size_t count,
                       const ckpt_value *values, size_t value_count, const ckpt_save_options *options,
                       ckpt_importance importance, ckpt_error *err)
{
    ckpt_save_options own = CKPT_SAVE_OPTIONS_INIT;
    const double start = seconds_now();
    int rc = 0;
    size_t total = 0;

    TRY(store_options(&own, sizeof own, options, err));
    options = &own;
    file_name = file_name ? file_name : SAVE_FILE_NAME;
    TRY(save_request_check(file_name, options, err));
    TRY(state_size(&total, tensors, count, err));

    pthread_mutex_lock(&writer->lock);
    writer->stats.submitted++;
    job *const j = job_acquire(writer, importance);
    pthread_mutex_unlock(&writer->lock);

    /* Nobody else touches a job that is neither staged nor in flight. */
    if (j) {
        rc = job_reserve(j, total, err);
        if (rc == 0)
            rc = job_fill(j, file_name, tensors, count, values, value_count, options, importance, err);
    }

    pthread_mutex_lock(&writer->lock);
    if (rc) {
        job_clear(j);
        writer->stats.failed++;
    } else {
        writer->staged = j ? j : writer->staged;
        rc = take_failure(writer, err);
        if (rc)
            error_prefix(err, "an earlier save failed");
    }
    writer->stats.blocked_seconds += seconds_now() - start;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
out:
    return rc;
}

int ckpt_writer_wait(ckpt_writer *writer, ckpt_error *err)
{
    pthread_mutex_lock(&writer->lock);
    while (writer->staged || writer->in_flight)
        pthread_cond_wait(&writer->changed, &writer->lock);
    const int rc = take_failure(writer, err);
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
    const int rc = take_failure(writer, err);
    for (size_t i = 0; i < 2; i++) {
        job_clear(&writer->jobs[i]);
        free(writer->jobs[i].memory);
    }
    ckpt_store_close(writer->store);
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->lock);
    free(writer);
    return rc;
}

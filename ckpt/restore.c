#include "content.h"

#include "fail.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESTORE_SLOTS_MAX   (2 * STORE_WORKERS_MAX + 4)
#define RESTORE_SMALL_BYTES ((size_t)64 << 10)  /* smaller units are copied from kept chunks */
#define RESTORE_FLUSH_BYTES ((uint64_t)8 << 20) /* the kernel is asked to write so often */

typedef struct restorer restorer;

/* A run of the file on its way: one large unit decoded by the pool, or small ones gathered here. */
typedef struct restore_slot {
    pool_task task; /* first, so that the task is the slot */
    restorer *owner;
    content_unit unit;
    unsigned char *data; /* CODEC_CHUNK_BYTES */
    size_t size;
    bool decoded_here;
    int rc;
    ckpt_error err;
} restore_slot;

struct restorer {
    ckpt_store *store;
    ckpt_content *content;
    const char *dir;
    bool overwrite;
    ckpt_restore_result *result;
    bool *unchanged; /* one for each file: it is there already */

    pool *pool;
    frame_reader **readers; /* one a worker */
    unsigned worker_count, slot_count;
    restore_slot slots[RESTORE_SLOTS_MAX];
    sha256_stream *stream;
    file_commit_plan plan;
    uint64_t done_bytes;
};

static void slot_decode(pool_task *task, unsigned worker)
{
    restore_slot *const slot = (restore_slot *)task;
    frame_reader *const reader = slot->owner->readers[worker];
    const content_unit *const u = &slot->unit;
    const uint64_t start = (uint64_t)u->chunk * CODEC_CHUNK_BYTES;
    const uint64_t frame_left = u->at.pack->index.frames[u->at.frame].size - start;

    if (u->from == 0 && (u->size == CODEC_CHUNK_BYTES || u->size == frame_left))
        slot->rc = frame_read_chunk(slot->data, reader, u->at, u->chunk, &slot->err);
    else
        slot->rc = frame_read(slot->data, reader, u->at, start + u->from, u->size, &slot->err);
}

static void restorer_close(restorer *r)
{
    file_commit_discard(&r->plan);
    for (unsigned i = 0; i < r->slot_count; i++)
        free(r->slots[i].data);
    for (unsigned i = 0; r->readers && i < r->worker_count; i++)
        frame_reader_free(r->readers[i]);
    free(r->readers);
    free(r->unchanged);
    sha256_free(r->stream);
}

static int restorer_open(restorer *r, ckpt_error *err)
{
    int rc = 0;

    TRY(store_pool(&r->pool, r->store, err));
    r->worker_count = pool_size(r->pool);
    r->readers = calloc(r->worker_count, sizeof *r->readers);
    r->stream = sha256_new();
    FAIL_IF(!r->readers || !r->stream, err, CKPT_ENOMEM, "out of memory");
    for (unsigned i = 0; i < r->worker_count; i++)
        TRY(frame_reader_new(&r->readers[i], r->store->packs, err));
    const unsigned wanted = 2 * r->worker_count + 4;
    for (; r->slot_count < wanted && r->slot_count < RESTORE_SLOTS_MAX; r->slot_count++) {
        restore_slot *const slot = &r->slots[r->slot_count];
        slot->owner = r;
        slot->task.run = slot_decode;
        slot->data = malloc(CODEC_CHUNK_BYTES);
        FAIL_IF_NULL(slot->data, err);
    }
out:
    return rc;
}

/* ---- Before anything is written ---- */

static int target_path(char out[FILE_PATH_MAX], const restorer *r, const content_file *f, ckpt_error *err)
{
    return path_join(out, r->dir, f->info.path, err);
}

static int same_bytes(bool *same, const restorer *r, const char *path, const content_file *f, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size = 0;
    sha256 hash;
    char hex[SHA256_HEX_SIZE];
    unsigned char *const buffer = malloc(CODEC_CHUNK_BYTES);

    *same = false;
    FAIL_IF_NULL(buffer, err);
    TRY(file_open(&fd, &size, path, err));
    if (size != f->info.size)
        goto out;
    sha256_restart(r->stream);
    for (uint64_t done = 0; done < size;) {
        const size_t n = size - done < CODEC_CHUNK_BYTES ? (size_t)(size - done) : CODEC_CHUNK_BYTES;
        TRY(file_read_at(buffer, fd, done, n, path, err));
        sha256_update(r->stream, buffer, n);
        done += n;
    }
    sha256_finish(&hash, r->stream);
    sha256_hex(hex, &hash);
    *same = strcmp(hex, f->info.sha256) == 0;
out:
    file_close(&fd);
    free(buffer);
    return rc;
}

static int same_link(bool *same, const char *path, const content_file *f, ckpt_error *err)
{
    char target[FILE_PATH_MAX];
    const ssize_t n = readlink(path, target, sizeof target - 1);

    if (n < 0)
        return error_errno(err, errno, "read link %s", path);
    target[n] = 0;
    *same = strcmp(target, f->info.link_target) == 0;
    return 0;
}

/* What stands at the target: nothing, the same (unchanged), or something that differs. */
static int look_at_target(bool *differs, bool *unchanged, const restorer *r, const content_file *f, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    struct stat st;

    *differs = *unchanged = false;
    TRY(target_path(path, r, f, err));
    if (lstat(path, &st)) {
        if (errno != ENOENT)
            rc = error_errno(err, errno, "%s", path);
        goto out;
    }
    if (f->info.kind == CKPT_FOLDER) {
        struct stat through;
        FAIL_IF(stat(path, &through) || !S_ISDIR(through.st_mode), err, CKPT_EUSAGE,
                "%s should be a folder and is something else", path);
        goto out;
    }
    FAIL_IF(S_ISDIR(st.st_mode), err, CKPT_EUSAGE, "%s should be a file and is a folder", path);
    if (f->info.kind == CKPT_FILE && S_ISREG(st.st_mode))
        TRY(same_bytes(unchanged, r, path, f, err));
    else if (f->info.kind == CKPT_LINK && S_ISLNK(st.st_mode))
        TRY(same_link(unchanged, path, f, err));
    *differs = !*unchanged;
out:
    return rc;
}

static int preflight(restorer *r, ckpt_error *err)
{
    int rc = 0;
    size_t differing = 0;
    const char *first = NULL;

    r->unchanged = calloc(r->content->file_count + 1, sizeof *r->unchanged);
    FAIL_IF_NULL(r->unchanged, err);
    for (size_t i = 0; i < r->content->file_count; i++) {
        const content_file *const f = &r->content->files[i];
        bool differs = false;
        TRY(look_at_target(&differs, &r->unchanged[i], r, f, err));
        if (differs && differing++ == 0)
            first = f->info.path;
        if (f->info.kind == CKPT_FILE) {
            r->result->files++;
            r->result->bytes += f->info.size;
            r->result->unchanged_files += r->unchanged[i];
        }
    }
    if (differing > 0 && !r->overwrite) {
        if (differing == 1)
            rc = error_set(err, CKPT_ECONFIRM, "%s exists and differs", first);
        else
            rc = error_set(err, CKPT_ECONFIRM, "%zu files exist and differ, %s among them", differing, first);
        error_where(err, r->dir);
    }
out:
    return rc;
}

/* ---- One file ---- */

/* Fills the next slot with what begins at *offset; a large unit goes to the pool, small ones are copied here. */
static int slot_fill(restore_slot *slot, restorer *r, size_t file, uint64_t *offset, ckpt_error *err)
{
    int rc = 0;
    const uint64_t size = r->content->files[file].info.size;

    slot->size = 0;
    slot->rc = 0;
    slot->decoded_here = true;
    while (*offset < size) {
        content_unit u;
        TRY(content_unit_at(&u, r->content, file, *offset, size - *offset, err));
        if (u.size > RESTORE_SMALL_BYTES) {
            if (slot->size > 0)
                break;
            slot->unit = u;
            slot->size = u.size;
            slot->decoded_here = false;
            *offset += u.size;
            pool_submit(r->pool, &slot->task);
            break;
        }
        if (slot->size + u.size > CODEC_CHUNK_BYTES)
            break;
        TRY(content_read_bytes(slot->data + slot->size, r->content, file, *offset, u.size, err));
        slot->size += u.size;
        *offset += u.size;
    }
out:
    return rc;
}

static bool all_zero(const unsigned char *data, size_t size)
{
    return data[0] == 0 && memcmp(data, data + 1, size - 1) == 0;
}

/* Takes a slot in order: hash, then write, or leave a hole. Without `tmp` the bytes are only checked. */
static int slot_write(restorer *r, restore_slot *slot, file_tmp *tmp, ckpt_error *err)
{
    int rc = 0;

    if (!slot->decoded_here)
        pool_wait(r->pool, &slot->task);
    if (slot->rc) {
        if (err)
            *err = slot->err;
        return slot->rc;
    }
    sha256_update(r->stream, slot->data, slot->size);
    if (!tmp)
        goto out;
    if (slot->size > RESTORE_SMALL_BYTES && all_zero(slot->data, slot->size)) {
        if (lseek(tmp->fd, (off_t)slot->size, SEEK_CUR) < 0) {
            rc = error_errno(err, errno, "seek in %s", tmp->path);
            goto out;
        }
        tmp->size_bytes += slot->size;
    } else {
        TRY(file_tmp_write(tmp, slot->data, slot->size, err));
    }
    r->done_bytes += slot->size;
    if (r->store->progress && r->store->progress(r->store->payload, r->done_bytes, r->result->bytes))
        FAIL(err, CKPT_EINTERRUPTED, "interrupted");
out:
    return rc;
}

/* Decodes a file into `tmp` and checks its SHA-256; without `tmp` it only checks. */
static int file_decode(restorer *r, size_t file, file_tmp *tmp, ckpt_error *err)
{
    int rc = 0;
    const content_file *const f = &r->content->files[file];
    uint64_t offset = 0, filled = 0, written = 0, flushed = 0;
    sha256 hash;
    char hex[SHA256_HEX_SIZE];

    sha256_restart(r->stream);
    while (offset < f->info.size || written < filled) {
        if (offset < f->info.size && filled - written < r->slot_count) {
            restore_slot *const slot = &r->slots[filled % r->slot_count];
            filled++; /* counted first, so that a failure below still waits for it */
            slot->decoded_here = true;
            TRY(slot_fill(slot, r, file, &offset, err));
            continue;
        }
        TRY(slot_write(r, &r->slots[written++ % r->slot_count], tmp, err));
        if (tmp && tmp->size_bytes - flushed >= RESTORE_FLUSH_BYTES) {
            file_tmp_flush_hint(tmp, flushed);
            flushed = tmp->size_bytes;
        }
    }
    sha256_finish(&hash, r->stream);
    sha256_hex(hex, &hash);
    FAIL_IF(strcmp(hex, f->info.sha256) != 0, err, CKPT_EDATA, "the decoded bytes are not those that were saved");
out:
    for (; written < filled; written++)
        if (!r->slots[written % r->slot_count].decoded_here)
            pool_wait(r->pool, &r->slots[written % r->slot_count].task);
    return rc;
}

/* What was left out at the end of a file was a hole. */
static int file_extend(file_tmp *tmp, uint64_t size, ckpt_error *err)
{
    int failed;

    do
        failed = ftruncate(tmp->fd, (off_t)size) ? errno : 0;
    while (failed == EINTR);
    return failed ? error_errno(err, failed, "extend %s", tmp->path) : 0;
}

static int parents_make(const char *path, ckpt_error *err)
{
    char parent[FILE_PATH_MAX];
    const char *const slash = strrchr(path, '/');

    if (!slash || slash == path)
        return 0;
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = 0;
    return dir_make_all(parent, err);
}

static int file_restore(restorer *r, size_t file, ckpt_error *err)
{
    int rc = 0, failed;
    const content_file *const f = &r->content->files[file];
    char path[FILE_PATH_MAX], parent[FILE_PATH_MAX];
    file_tmp tmp = {.fd = -1};

    TRY(target_path(path, r, f, err));
    TRY(parents_make(path, err));
    TRY(path_parent(parent, path, err));
    TRY(file_tmp_open(&tmp, parent, path_base(path), err));
    TRY(file_decode(r, file, &tmp, err));
    TRY(file_extend(&tmp, f->info.size, err));
    do
        failed = fchmod(tmp.fd, f->info.mode & 0777) ? errno : 0;
    while (failed == EINTR);
    if (failed) {
        rc = error_errno(err, failed, "set the mode of %s", tmp.path);
        goto out;
    }
    TRY(file_tmp_seal(&tmp, err));
    TRY(file_commit_add(&r->plan, &tmp, path, true, err));
out:
    if (rc)
        error_prefix(err, "restore %s", f->info.path);
    file_tmp_discard(&tmp);
    return rc;
}

/* ---- Links and folders ---- */

static int link_restore(restorer *r, const content_file *f, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];

    TRY(target_path(path, r, f, err));
    TRY(parents_make(path, err));
    TRY(file_link(path, f->info.link_target, err));
out:
    return rc;
}

static int folders_make(restorer *r, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];

    TRY(dir_make_all(r->dir, err));
    for (size_t i = 0; i < r->content->file_count; i++) {
        if (r->content->files[i].info.kind != CKPT_FOLDER)
            continue;
        TRY(target_path(path, r, &r->content->files[i], err));
        TRY(dir_make_all(path, err));
    }
out:
    return rc;
}

/* Also of a folder that was there: a restore that was killed may have made it. */
static int folder_mode(const char *path, unsigned mode, ckpt_error *err)
{
    struct stat st;
    int failed;

    do
        failed = stat(path, &st) || ((st.st_mode & 0777) != mode && chmod(path, mode)) ? errno : 0;
    while (failed == EINTR);
    return failed ? error_errno(err, failed, "set the mode of %s", path) : 0;
}

/* Modes of folders come last, deepest first, so that a folder without write permission can be filled. */
static int folders_finish(restorer *r, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];

    for (size_t i = r->content->file_count; i-- > 0;) {
        const content_file *const f = &r->content->files[i];
        if (f->info.kind != CKPT_FOLDER)
            continue;
        TRY(target_path(path, r, f, err));
        TRY(dir_sync(path, NULL, err));
        TRY(folder_mode(path, f->info.mode & 0777, err));
    }
out:
    return rc;
}

static int restore_all(restorer *r, ckpt_error *err)
{
    int rc = 0;

    TRY(folders_make(r, err));
    for (size_t i = 0; i < r->content->file_count; i++)
        if (r->content->files[i].info.kind == CKPT_FILE && !r->unchanged[i])
            TRY(file_restore(r, i, err));
    TRY(file_commit(&r->plan, err));
    for (size_t i = 0; i < r->content->file_count; i++)
        if (r->content->files[i].info.kind == CKPT_LINK && !r->unchanged[i])
            TRY(link_restore(r, &r->content->files[i], err));
    TRY(folders_finish(r, err));
out:
    return rc;
}

/* ---- One checkpoint, and the next older one when it is damaged ---- */

static int check_all(restorer *r, ckpt_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < r->content->file_count; i++)
        if (r->content->files[i].info.kind == CKPT_FILE)
            TRY(file_decode(r, i, NULL, err));
out:
    return rc;
}

static int restore_snapshot(ckpt_restore_result *result, ckpt_store *store, const snapshot_name *name,
                            const ckpt_restore_options *options, bool may_fall_back, ckpt_error *err)
{
    int rc = 0;
    restorer r = {
        .store = store, .dir = options->dir ? options->dir : ".", .overwrite = options->overwrite, .result = result};

    *result = (ckpt_restore_result){0};
    sha256_hex(result->id, &name->id);
    TRY(content_open_snapshot(&r.content, store, name, err));
    TRY(restorer_open(&r, err));
    rc = preflight(&r, err);
    /* Nobody should be asked about a checkpoint that is damaged, where an older one would be restored instead. */
    if (rc == CKPT_ECONFIRM && may_fall_back) {
        const int damaged = check_all(&r, NULL);
        rc = damaged == CKPT_EDATA ? check_all(&r, err) : rc;
    }
    TRY(rc);
    if (!options->dry_run)
        TRY(restore_all(&r, err));
out:
    restorer_close(&r);
    ckpt_content_close(r.content);
    return rc;
}

/* Tries the newest first, then older ones while they are damaged. */
static int restore_newest_good(ckpt_restore_result *result, ckpt_store *store, const ckpt_restore_options *options,
                               ckpt_error *err)
{
    int rc = 0;
    snapshot_name *names = NULL;
    size_t count = 0;
    bool fell_back = false;
    ckpt_error first = {0}, last = {0};

    TRY(snapshot_names(&names, &count, store->snapshots_dir, err));
    rc = error_set(&last, CKPT_ENOTFOUND, "all checkpoints were removed meanwhile");
    for (size_t i = 0; i < count; i++) {
        rc = restore_snapshot(result, store, &names[i], options, true, &last);
        result->fell_back = fell_back;
        if (rc == CKPT_ENOTFOUND && content_was_removed(store, &names[i]))
            continue;
        if (rc != CKPT_EDATA)
            break;
        if (!fell_back)
            first = last;
        fell_back = true;
    }
    if (rc == CKPT_ENOTFOUND && fell_back)
        rc = CKPT_EDATA;
    if (rc && err)
        *err = rc == CKPT_EDATA ? first : last;
    if (rc == 0 && fell_back)
        store_note(store, "the newest checkpoint is damaged (%s); restored %.8s, the newest good one", first.message,
                   result->id);
out:
    free(names);
    return rc;
}

int ckpt_restore_files(ckpt_restore_result *result, ckpt_store *store, const char *name,
                       const ckpt_restore_options *options, ckpt_error *err)
{
    int rc = 0;
    snapshot_name wanted;
    ckpt_restore_result own;
    static const ckpt_restore_options DEFAULTS = {.size = sizeof DEFAULTS};

    result = result ? result : &own;
    options = options ? options : &DEFAULTS;
    name = name ? name : "latest";
    FAIL_IF(options->size != sizeof *options, err, CKPT_EUSAGE, "ckpt_restore_options has an unknown size");
    for (int tries = 0;; tries++) {
        TRY(name_resolve(&wanted, store, name, err));
        if (content_may_fall_back(name))
            rc = restore_newest_good(result, store, options, err);
        else
            rc = restore_snapshot(result, store, &wanted, options, false, err);
        if (rc != CKPT_ENOTFOUND || !content_was_removed(store, &wanted) || tries == CONTENT_RESOLVE_TRIES)
            break; /* else a prune was quicker, and the name means another one now, or none */
        error_clear(err);
    }
out:
    return rc;
}

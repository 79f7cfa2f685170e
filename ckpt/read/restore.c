#include "content.h"

#include "bytes.h"
#include "fail.h"
#include "pattern.h"
#include "restore_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESTORE_SLOTS_MAX   (2 * STORE_WORKERS_MAX + 4)
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
    bool overwrite, in_place;
    char swept[FILE_PATH_MAX]; /* the folder that was last rid of what killed restores left */
    ckpt_restore_result *result;
    bool *left_out;  /* one for each file: nobody asked for it */
    bool *unchanged; /* one for each file: it is there already */

    pool *pool;
    frame_reader **readers; /* one a worker */
    unsigned worker_count, slot_count;
    restore_slot slots[RESTORE_SLOTS_MAX];
    sha256_stream *stream;
    file_commit_plan plan;
    uint64_t done_bytes; /* of result->bytes: written, or found to be there */
};

static void slot_decode(pool_task *task, unsigned worker)
{
    restore_slot *const slot = (restore_slot *)task;

    slot->rc = content_unit_decode(slot->data, slot->owner->readers[worker], &slot->unit, &slot->err);
}

static void restorer_close(restorer *r)
{
    file_commit_discard(&r->plan);
    for (unsigned i = 0; i < r->slot_count; i++)
        free(r->slots[i].data);
    for (unsigned i = 0; r->readers && i < r->worker_count; i++)
        frame_reader_free(r->readers[i]);
    free(r->readers);
    free(r->left_out);
    free(r->unchanged);
    sha256_free(r->stream);
}

/* Which files are asked for; CKPT_ENOTFOUND when none is. */
static int files_choose(restorer *r, const ckpt_restore_options *options, ckpt_error *err)
{
    int rc = 0;
    size_t chosen = 0;

    r->left_out = calloc(r->content->file_count + 1, sizeof *r->left_out);
    FAIL_IF_NULL(r->left_out, err);
    for (size_t i = 0; i < r->content->file_count && options->only_count > 0; i++) {
        r->left_out[i] = !pattern_any_path(options->only, options->only_count, r->content->files[i].info.path);
        chosen += !r->left_out[i];
    }
    FAIL_IF(options->only_count > 0 && chosen == 0, err, CKPT_ENOTFOUND, "no file of %.8s fits `%s`%s",
            r->content->info.id, options->only[0], options->only_count > 1 ? " or the others" : "");
out:
    if (rc == CKPT_ENOTFOUND)
        error_hint(err, "`ckpt show` lists its files");
    return rc;
}

static int restorer_open(restorer *r, ckpt_error *err)
{
    int rc = 0;

    TRY(store_pool(&r->pool, r->store, err));
    r->worker_count = pool_size(r->pool);
    r->readers = calloc(r->worker_count, sizeof *r->readers);
    r->stream = sha256_new();
    r->unchanged = calloc(r->content->file_count + 1, sizeof *r->unchanged);
    FAIL_IF_NULL(r->readers && r->stream && r->unchanged, err);
    for (unsigned i = 0; i < r->worker_count; i++)
        TRY(frame_reader_new(&r->readers[i], r->store->packs, err));
    const unsigned wanted = 2 * r->worker_count + 4; /* at most RESTORE_SLOTS_MAX */
    for (; r->slot_count < wanted; r->slot_count++) {
        restore_slot *const slot = &r->slots[r->slot_count];
        slot->owner = r;
        slot->task.run = slot_decode;
        slot->data = malloc(CODEC_CHUNK_BYTES);
        FAIL_IF_NULL(slot->data, err);
    }
out:
    return rc;
}

/* Counts bytes and tells the caller of them; 0 bytes only ask whether to go on. */
static int restorer_progress(restorer *r, uint64_t bytes, ckpt_error *err)
{
    r->done_bytes += bytes;
    if (r->store->progress && r->store->progress(r->store->payload, r->done_bytes, r->result->bytes))
        return error_set(err, CKPT_EINTERRUPTED, "interrupted");
    return 0;
}

static const sha256 *file_hash(const restorer *r, const content_file *f)
{
    return &r->content->pack->index.files[f->row].hash;
}

/* ---- Before anything is written ---- */

static int target_path(char out[FILE_PATH_MAX], const restorer *r, const content_file *f, ckpt_error *err)
{
    return path_join(out, r->dir, f->info.path, err);
}

static int same_bytes(bool *same, restorer *r, const char *path, const content_file *f, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size = 0;
    sha256 hash;
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
        TRY(restorer_progress(r, 0, err));
        done += n;
    }
    sha256_finish(&hash, r->stream);
    *same = sha256_compare(&hash, file_hash(r, f)) == 0;
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
static int look_at_target(bool *differs, bool *unchanged, restorer *r, const content_file *f, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    struct stat st;

    *differs = *unchanged = false;
    TRY(restore_path_check(r->dir, f->info.path, f->info.kind == CKPT_FOLDER, r->in_place, r->overwrite, err));
    TRY(target_path(path, r, f, err));
    if (strstr(f->info.path, ".ckpt")) { /* no save has a store in it, but strangers write checkpoints too */
        char folder[FILE_PATH_MAX];
        TRY(path_parent(folder, path, err));
        TRY(restore_folder_check(folder, err));
    }
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
    FAIL_IF(!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode), err, CKPT_EUSAGE,
            "%s should be a file and is a device, pipe or socket", path);
    if (f->info.kind == CKPT_FILE && S_ISREG(st.st_mode))
        TRY(same_bytes(unchanged, r, path, f, err));
    else if (f->info.kind == CKPT_LINK && S_ISLNK(st.st_mode))
        TRY(same_link(unchanged, path, f, err));
    *differs = !*unchanged;
out:
    return rc;
}

/* Finds what is there already; CKPT_ECONFIRM when something would be overwritten that nobody agreed to. */
static int preflight(restorer *r, ckpt_error *err)
{
    int rc = 0;
    size_t differing = 0;
    const char *first = NULL;

    TRY(restore_folder_check(r->dir, err));
    for (size_t i = 0; i < r->content->file_count; i++) {
        const content_file *const f = &r->content->files[i];
        r->result->files += f->info.kind == CKPT_FILE && !r->left_out[i];
        r->result->bytes += r->left_out[i] ? 0 : f->info.size;
    }
    for (size_t i = 0; i < r->content->file_count; i++) {
        const content_file *const f = &r->content->files[i];
        bool differs = false;
        if (r->left_out[i])
            continue;
        TRY(look_at_target(&differs, &r->unchanged[i], r, f, err));
        if (differs && differing++ == 0)
            first = f->info.path;
        if (f->info.kind == CKPT_FILE && r->unchanged[i]) {
            r->result->unchanged_files++;
            TRY(restorer_progress(r, f->info.size, err));
        }
    }
    if (differing > 0 && !r->overwrite) {
        if (differing == 1)
            rc = error_set(err, CKPT_ECONFIRM, "%s exists and differs", first);
        else
            rc = error_set(err, CKPT_ECONFIRM, "%zu files exist and differ, %s among them", differing, first);
        error_where(err, r->dir);
        error_hint(err, "--yes overwrites, -o DIR restores elsewhere");
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
        if (u.size > CONTENT_SMALL_BYTES) {
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
    if (!tmp) {
        TRY(restorer_progress(r, slot->size, err));
        goto out;
    }
    if (slot->size > CONTENT_SMALL_BYTES && bytes_are_zero(slot->data, slot->size)) {
        if (lseek(tmp->fd, (off_t)slot->size, SEEK_CUR) < 0) {
            rc = error_errno(err, errno, "seek in %s", tmp->path);
            goto out;
        }
        tmp->size_bytes += slot->size;
    } else {
        TRY(file_tmp_write(tmp, slot->data, slot->size, err));
    }
    TRY(restorer_progress(r, slot->size, err));
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
    FAIL_IF(sha256_compare(&hash, file_hash(r, f)) != 0, err, CKPT_EDATA,
            "the decoded bytes are not those that were saved");
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

static int file_restore(restorer *r, size_t file, ckpt_error *err)
{
    int rc = 0, failed;
    const content_file *const f = &r->content->files[file];
    char path[FILE_PATH_MAX], parent[FILE_PATH_MAX];
    file_tmp tmp = {.fd = -1};

    TRY(target_path(path, r, f, err));
    TRY(path_parent(parent, path, err));
    TRY(dir_make_all(parent, err));
    if (strcmp(parent, r->swept) != 0) {
        sweep_restored(parent);
        memcpy(r->swept, parent, strlen(parent) + 1);
    }
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
    char path[FILE_PATH_MAX], parent[FILE_PATH_MAX];

    TRY(target_path(path, r, f, err));
    TRY(path_parent(parent, path, err));
    TRY(dir_make_all(parent, err));
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
        if (r->content->files[i].info.kind != CKPT_FOLDER || r->left_out[i])
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
    int rc = 0, fd, failed;
    struct stat st;

    do {
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        failed = fd < 0 || fstat(fd, &st) || ((st.st_mode & 0777) != mode && fchmod(fd, mode)) ? errno : 0;
        if (failed)
            file_close(&fd);
    } while (failed == EINTR);
    if (failed) {
        rc = error_errno(err, failed, "set the mode of %s", path);
        goto out;
    }
    TRY(file_sync(fd, NULL, path, err));
out:
    file_close(&fd);
    return rc;
}

/* Modes of folders come last, deepest first, so that a folder without write permission can be filled. */
static int folders_finish(restorer *r, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];

    for (size_t i = r->content->file_count; i-- > 0;) {
        const content_file *const f = &r->content->files[i];
        if (f->info.kind != CKPT_FOLDER || r->left_out[i])
            continue;
        TRY(target_path(path, r, f, err));
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
        if (r->content->files[i].info.kind == CKPT_FILE && !r->unchanged[i] && !r->left_out[i])
            TRY(file_restore(r, i, err));
    TRY(file_commit(&r->plan, err));
    for (size_t i = 0; i < r->content->file_count; i++)
        if (r->content->files[i].info.kind == CKPT_LINK && !r->unchanged[i] && !r->left_out[i])
            TRY(link_restore(r, &r->content->files[i], err));
    TRY(folders_finish(r, err));
out:
    return rc;
}

/* ---- One checkpoint ---- */

/* Nobody should be asked about a checkpoint that is damaged, where an older one would be restored instead. */
static int check_all(restorer *r, ckpt_error *err)
{
    int rc = 0;

    r->done_bytes = 0;
    for (size_t i = 0; i < r->content->file_count; i++)
        if (r->content->files[i].info.kind == CKPT_FILE && !r->left_out[i]) {
            rc = file_decode(r, i, NULL, err);
            if (rc)
                error_prefix(err, "restore %s", r->content->files[i].info.path);
            TRY(rc);
        }
out:
    return rc;
}

typedef struct restore_work {
    ckpt_store *store;
    ckpt_restore_options options;
    ckpt_restore_result *result;
    bool may_fall_back;
} restore_work;

static int restore_content(void *payload, ckpt_content **content, ckpt_error *err)
{
    int rc = 0;
    const restore_work *const work = payload;
    ckpt_error damage;
    restorer r = {.store = work->store,
                  .content = *content,
                  .dir = work->options.dir ? work->options.dir : ".",
                  .overwrite = work->options.overwrite,
                  .in_place = !work->options.dir,
                  .result = work->result,
                  .plan.any_order = true};

    *work->result = (ckpt_restore_result){0};
    memcpy(work->result->id, (*content)->info.id, sizeof work->result->id);
    TRY(files_choose(&r, &work->options, err));
    TRY(restorer_open(&r, err));
    rc = preflight(&r, err);
    if (rc == CKPT_ECONFIRM && work->may_fall_back) {
        const int checked = check_all(&r, &damage);
        if (checked && err)
            *err = damage;
        rc = checked ? checked : rc;
    }
    TRY(rc);
    if (!work->options.dry_run)
        TRY(restore_all(&r, err));
out:
    restorer_close(&r);
    return rc;
}

int ckpt_restore_files(ckpt_restore_result *result, ckpt_store *store, const char *name,
                       const ckpt_restore_options *options, ckpt_error *err)
{
    int rc = 0;
    bool fell_back = false;
    ckpt_restore_result own;
    restore_work work = {.store = store, .options = {.size = sizeof work.options}, .result = result ? result : &own};

    *work.result = (ckpt_restore_result){0};
    TRY(store_options(&work.options, sizeof work.options, options, err));
    name = name ? name : "latest";
    work.may_fall_back = content_may_fall_back(name);
    TRY(content_work(&fell_back, store, name, restore_content, &work, err));
    work.result->fell_back = fell_back;
out:
    return rc;
}

#include "save_internal.h"

#include "fail.h"
#include "feature.h"
#include "setting.h"
#include "tables.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- The saver ---- */

static int saver_reference_snapshots(saver *s, uint64_t *sequence, ckpt_error *err)
{
    int rc = 0;
    snapshot_name *names = NULL;
    size_t count = 0;
    pack *packs[REFERENCE_SNAPSHOTS];
    size_t pack_count = 0;

    TRY(snapshot_names(&names, &count, s->store->snapshots_dir, err));
    TRY(snapshot_next_sequence(sequence, names, count, s->store->snapshots_dir, err));
    for (size_t i = 0; i < count && pack_count < REFERENCE_SNAPSHOTS; i++) {
        snapshot snap = {0};
        /* What is damaged cannot serve as a reference; verify is the one to report it. */
        if (snapshot_read(&snap, s->store->snapshots_dir, &names[i], NULL) == 0 &&
            pack_set_get(&packs[pack_count], s->store->packs, &snap.pack, NULL) == 0)
            pack_count++;
        snapshot_clear(&snap);
    }
    for (size_t i = pack_count; i-- > 0;) { /* oldest first */
        rc = save_take_pack(s, packs[i], err);
        if (rc == 0)
            rc = reference_library_add(s->library, &packs[i]->index, packs[i], 0, packs[i]->index.file_count, err);
        else if (rc == CKPT_ENOTFOUND)
            rc = error_clear(err); /* a prune was quicker: it is no reference then */
        TRY(rc);
    }
out:
    free(names);
    return rc;
}

static int scratch_make(save_scratch *m, ckpt_store *store, ckpt_error *err)
{
    int rc = 0;
    pool *p = NULL;

    TRY(store_pool(&p, store, err));
    TRY(frame_coder_new(&m->coder, p, store->packs, err));
    TRY(frame_reader_new(&m->reader, store->packs, err));
    m->buffer = malloc(CODEC_CHUNK_BYTES);
    m->decoded = malloc(CODEC_CHUNK_BYTES);
    m->sample = malloc(CODEC_SAMPLES_MAX * CODEC_SAMPLE_BYTES);
    m->sample_references = malloc(CODEC_SAMPLES_MAX * CODEC_REFERENCES_MAX * CODEC_SAMPLE_BYTES);
    FAIL_IF_NULL(m->buffer && m->decoded && m->sample && m->sample_references, err);
out:
    return rc;
}

void save_scratch_clear(save_scratch *m)
{
    frame_coder_free(m->coder);
    frame_reader_free(m->reader);
    free(m->buffer);
    free(m->decoded);
    free(m->sample);
    free(m->sample_references);
    *m = (save_scratch){0};
}

void saver_close(saver *s)
{
    save_scratch_clear(&s->scratch);
    reference_library_free(s->library);
    if (s->store)
        store_packs_return(s->store);
    lookup_close(s->lookup);
    pack_writer_discard(&s->writer);
    pack_index_clear(&s->tables);
    intent_close(s->intent);
    sha256_free(s->file_stream);
    transform_close(&s->above);
    free(s->placed);
}

static int saver_open(saver *s, uint64_t *sequence, ckpt_store *store, ckpt_level level, save_carry *carry,
                      ckpt_error *err)
{
    int rc = 0;

    *s = (saver){.store = store, .level = level, .writer.tmp.fd = -1};
    store_packs_borrow(store);
    if (carry) {
        s->kept = &carry->kept;
        s->scratch = carry->scratch;
        carry->scratch = (save_scratch){0};
    }
    TRY(store_writable(store, err));
    TRY(setting_parity(&s->parity, store, err));
    (void)sweep_tmp(NULL, store, false, false, NULL); /* what killed saves left; prune can report it */
    TRY(intent_open(&s->intent, store, err));
    TRY(lookup_open(&s->lookup, store, err));
    TRY(reference_library_new(&s->library, store->packs, err));
    TRY(saver_reference_snapshots(s, sequence, err));
    if (!s->scratch.coder)
        TRY(scratch_make(&s->scratch, store, err));
    frame_reader_forget(s->scratch.reader);
    frame_coder_forget(s->scratch.coder);
    frame_coder_keep(s->scratch.coder, s->kept);
    s->faults_before = frame_coder_faults(s->scratch.coder);
    s->file_stream = sha256_new();
    FAIL_IF_NULL(s->file_stream, err);
out:
    return rc;
}

int saver_pack_open(saver *s, ckpt_error *err)
{
    int rc = 0;

    TRY(pack_writer_open(&s->writer, s->store->tmp_dir, err));
    frame_coder_target(s->scratch.coder, &s->writer);
out:
    return rc;
}

int saver_progress(saver *s, uint64_t bytes, ckpt_error *err)
{
    s->done_bytes += bytes;
    if (s->store->progress && s->store->progress(s->store->payload, s->done_bytes, s->total_bytes))
        return error_set(err, CKPT_EINTERRUPTED, "interrupted");
    return 0;
}

/* Ends the open pack and puts it into `plan` under its name. */
static int writer_finish(sha256 *name, file_commit_plan *plan, saver *s, ckpt_error *err)
{
    int rc = 0;
    uint64_t bytes = 0;

    TRY(frame_coder_drain(s->scratch.coder, err));
    TRY(pack_writer_finish(name, &s->writer, err));
    s->coded_bytes += s->writer.coded_bytes;
    TRY(features_announce(s->store, pack_index_features(&s->writer.index), err));
    TRY(intent_add(s->intent, name, 1, err)); /* before it appears: prune must know whose it is */
    TRY(save_place_pack(plan, &bytes, s->store, &s->writer.tmp, name, s->parity, err));
    s->packs_bytes += bytes;
    TRY(save_quota_check(s, 0, err)); /* what was estimated may have been wrong, and others save too */
out:
    return rc;
}

int saver_roll(saver *s, ckpt_error *err)
{
    int rc = 0;
    sha256 name;
    file_commit_plan plan = {0};
    pack *closed = NULL;
    uint32_t number = 0;

    /* A pack describes the files it was written for, so that look-ups find their bytes in it. */
    TRY(frame_coder_drain(s->scratch.coder, err));
    TRY(tables_copy(&s->writer.index, &s->tables, s->open_file, s->tables.file_count, err));
    TRY(writer_finish(&name, &plan, s, err));
    TRY(file_commit(&plan, err));
    pack_writer_discard(&s->writer);
    TRY(saver_pack_open(s, err));
    s->open_bytes = 0;
    s->rolls++;

    TRY(pack_set_get(&closed, s->store->packs, &name, err));
    TRY(save_use_closed_pack(&number, s, closed, err));
    for (uint32_t i = s->open_extent; i < s->tables.extent_count; i++) {
        pack_extent *const e = &s->tables.extents[i];
        if (e->pack == 0) {
            e->pack = number;
            e->hash = (hash128){0};
        }
    }
    for (size_t i = 0; i < s->piece_count; i++)
        if (s->pieces[i].placed && s->pieces[i].pack == 0) {
            s->pieces[i].pack = number;
            s->pieces[i].hash = (hash128){0};
        }
    save_remember_roll(s, number);
    s->open_extent = s->tables.extent_count;
    s->open_file = s->tables.file_count;
out:
    file_commit_discard(&plan);
    return rc;
}

/* ---- The snapshot, and the commit of both ---- */

static int snapshot_write(file_commit_plan *plan, uint64_t *stored_bytes, snapshot *snap, saver *s, ckpt_error *err)
{
    int rc = 0;
    char *text = NULL, path[FILE_PATH_MAX];
    size_t size = 0;
    file_tmp tmp = {.fd = -1};

    /* Its own size is part of what it says; the second round has it right but for a digit more. */
    for (int round = 0; round < 2; round++) {
        free(text);
        text = NULL;
        snap->stored_bytes = s->packs_bytes + size;
        TRY(snapshot_encode(&text, &size, snap, err));
    }
    *stored_bytes = snap->stored_bytes;
    const snapshot_name name = {snap->sequence, snap->id};
    TRY(snapshot_path(path, s->store->snapshots_dir, &name, err));
    TRY(file_tmp_open(&tmp, s->store->tmp_dir, "snapshot", err));
    TRY(file_tmp_write(&tmp, text, size, err));
    TRY(file_commit_add(plan, &tmp, path, false, err));
out:
    file_tmp_discard(&tmp);
    free(text);
    return rc;
}

/* The person's own, and what was done to the values. */
static int save_meta(snapshot *snap, char lossy[CKPT_LOSSY_SIZE], const saver *s, const ckpt_save_options *options,
                     ckpt_error *err)
{
    int rc = 0;
    ckpt_value *const meta = calloc(options->meta_count + 1, sizeof *meta);
    size_t count = options->meta_count;

    FAIL_IF_NULL(meta, err);
    for (size_t i = 0; i < count; i++)
        meta[i] = options->meta[i];
    transform_text(lossy, &s->account, &s->rules);
    if (*lossy)
        meta[count++] = (ckpt_value){CKPT_META_LOSSY, lossy};
    TRY(snapshot_set_meta(snap, options->message, meta, count, err));
out:
    free(meta);
    return rc;
}

/* The last look at the quota, with all that is still to come. */
static int snapshot_fits(saver *s, snapshot *snap, ckpt_error *err)
{
    int rc = 0;
    char *text = NULL;
    size_t size = 0;

    snap->stored_bytes = s->packs_bytes;
    TRY(snapshot_encode(&text, &size, snap, err));
    TRY(save_quota_check(s, size, err));
out:
    free(text);
    return rc;
}

int saver_commit(ckpt_save_result *result, saver *s, uint64_t sequence, const ckpt_save_options *options,
                 ckpt_error *err)
{
    int rc = 0;
    file_commit_plan plan = {0};
    snapshot snap = {.sequence = sequence, .time = (int64_t)time(NULL), .step = options->step};
    uint64_t raw_bytes = 0;

    for (uint32_t i = 0; i < s->tables.file_count; i++)
        raw_bytes += s->tables.files[i].size;
    snap.files = s->tables.file_count;
    snap.raw_bytes = raw_bytes;
    TRY(save_meta(&snap, result->lossy, s, options, err));
    TRY(frame_coder_drain(s->scratch.coder, err));
    save_tell_faults(s->store, frame_coder_faults(s->scratch.coder) - s->faults_before);
    TRY(tables_copy(&s->writer.index, &s->tables, 0, s->tables.file_count, err));
    TRY(pack_index_tree(&snap.tree, &s->writer.index, err));
    TRY(writer_finish(&snap.pack, &plan, s, err));
    TRY(snapshot_fits(s, &snap, err));
    TRY(file_commit(&plan, err));
    TRY(intent_check(s->intent, err)); /* no snapshot may name a pack that is gone */
    TRY(snapshot_write(&plan, &result->stored_bytes, &snap, s, err));
    TRY(intent_keep(s->intent, &snap.id, err)); /* no prune may take it before it has its tag */
    TRY(file_commit(&plan, err));
    if (plan.sync_unsupported)
        store_note(s->store, "this file system cannot make folders durable; a power cut may undo the last save");
    TRY(intent_check(s->intent, err)); /* a writer that was frozen since the first check must not report success */

    sha256_hex(result->id, &snap.id);
    result->sequence = sequence;
    for (uint32_t i = 0; i < s->tables.file_count; i++)
        result->files += s->tables.files[i].kind == CKPT_FILE;
    result->tensors = s->tensor_count;
    result->raw_bytes = raw_bytes;
    result->coded_bytes = s->coded_bytes;
    result->shared_bytes = s->shared_bytes;
    if (lookup_add(s->store, &snap.pack, &s->writer.index, NULL))
        store_note(s->store, "the cache could not be written; the save is complete");
    if (options->tag)
        TRY(ckpt_tag_set(s->store, options->tag, result->id, true, err));
out:
    file_commit_discard(&plan);
    snapshot_clear(&snap);
    return rc;
}

/* ---- Files ---- */

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Times of files come in ticks of up to 10 ms, so a file written that short ago could be written again without a trace.
 * Waits until it is old enough; false when it is written on. */
static bool settle(struct stat *st, int fd)
{
    for (int looks = 0; looks < SAVE_SETTLE_LOOKS; looks++) {
        struct timespec now;
        if (fstat(fd, st))
            return false;
        clock_gettime(CLOCK_REALTIME, &now);
        const int64_t age_ns =
            ((int64_t)now.tv_sec - st->st_ctim.tv_sec) * 1000000000 + (now.tv_nsec - st->st_ctim.tv_nsec);
        if (age_ns < 0 || age_ns >= SAVE_SETTLE_NS) /* a time to come is another clock's, and says nothing */
            return true;
        nanosleep(&(struct timespec){.tv_nsec = (long)(SAVE_SETTLE_NS - age_ns)}, NULL);
    }
    return false;
}

/* Are there bytes behind what a file says is its end? Those of /proc and some network file systems say 0. */
static bool has_more(int fd, uint64_t size)
{
    char byte;

    return pread(fd, &byte, 1, (off_t)size) > 0;
}

/* Of a file that was expected to be as it is another may have taken the name meanwhile, or it was removed: what was
 * read is whole all the same. Losing its name changes the ctime alone. */
static bool has_changed(const saver *s, const struct stat *before, int fd, const char *source)
{
    struct stat after, named;

    if (fstat(fd, &after) || has_more(fd, (uint64_t)before->st_size))
        return true;
    const bool there = stat(source, &named) == 0;
    if (s->expected && (!there || named.st_ino != before->st_ino))
        after.st_ctim = before->st_ctim;
    else if (!there || !same_file(before, &named))
        return true;
    return !same_file(before, &after);
}

static bool is_expected(const saver *s, const walk_entry *entry, const struct stat *st)
{
    const ckpt_file_mark *const mark = s->expected && entry->typed ? &s->expected[entry->given] : NULL;

    return !mark || (mark->size == (uint64_t)st->st_size && mark->inode == (uint64_t)st->st_ino &&
                     mark->mtime_ns == (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec);
}

/* One try. *changed: the file is not what it was when it was opened; *gone: it could not be opened any more. */
static int save_entry_once(bool *changed, bool *gone, saver *s, const walk_entry *entry, ckpt_error *err)
{
    int rc = 0, fd = -1;
    struct stat before;
    byte_source source;
    uint64_t size = 0;
    file_tmp copy = {.fd = -1};

    *changed = false;
    rc = file_open(&fd, &size, entry->source, err);
    *gone = rc == CKPT_ENOTFOUND;
    TRY(rc);
    FAIL_IF(!settle(&before, fd), err, CKPT_ECHANGED, "%s is being written", entry->source);
    FAIL_IF(!is_expected(s, entry, &before), err, CKPT_ECHANGED, "%s has changed", entry->source);
    size = (uint64_t)before.st_size;
    if (s->from_copy) { /* the shortest time in which it has to stand still */
        rc = save_copy(&copy, s, fd, size, entry->source, err);
        *changed = has_changed(s, &before, fd, entry->source);
        if (rc || *changed)
            goto out;
    }
    byte_source_fd(&source, s->from_copy ? copy.fd : fd, size, entry->source);
    s->source = &source;
    rc = save_file(s, entry->path, entry->mode, err);
    if (!s->from_copy)
        *changed = has_changed(s, &before, fd, entry->source);
out:
    file_tmp_discard(&copy);
    file_close(&fd);
    return rc;
}

static int save_entry_file(bool *gone, saver *s, const walk_entry *entry, ckpt_error *err)
{
    int rc = 0;
    const int tries = s->expected && entry->typed ? 1 : SAVE_READ_TRIES; /* it will not come back to what it was */

    for (int attempt = 0; attempt < tries; attempt++) {
        const pack_index before = s->tables;
        const uint64_t done = s->done_bytes, tensors = s->tensor_count, shared = s->shared_bytes;
        const transform_account account = s->account;
        bool changed = false;

        if (attempt > 0)
            nanosleep(&(struct timespec){.tv_nsec = 40000000L << (2 * attempt - 2)}, NULL);
        rc = save_entry_once(&changed, gone, s, entry, err);
        const bool again = changed && (rc == 0 || rc == CKPT_EDATA || rc == CKPT_EFORMAT);
        if (!again && rc != CKPT_ECHANGED)
            return rc;
        /* Forget its rows; what was coded stays in the pack, unnamed. */
        const int padded = frame_coder_pad(s->scratch.coder, err);
        if (padded)
            return padded;
        s->tables.file_count = before.file_count;
        s->tables.extent_count = before.extent_count;
        s->tables.tensor_count = before.tensor_count;
        s->tables.value_count = before.value_count;
        s->tables.dim_count = before.dim_count;
        if (s->open_extent > s->tables.extent_count)
            s->open_extent = s->tables.extent_count;
        s->placed_count = 0; /* its rows may be among them */
        if (s->placed)
            memset(s->placed, 0, s->placed_rows * sizeof *s->placed);
        s->done_bytes = done;
        s->tensor_count = tensors;
        s->account = account;
        s->shared_bytes = shared;
    }
    rc = error_set(err, CKPT_ECHANGED, "%s kept changing while it was read", entry->path);
    error_where(err, entry->source);
    error_hint(err,
               "save it when the program that writes it has finished, or let that program write to another name and "
               "rename it");
    return rc;
}

static int save_entry_other(saver *s, const walk_entry *entry, ckpt_error *err)
{
    int rc = 0;
    uint32_t ignored;
    pack_file row = {.mode = (uint16_t)entry->mode,
                     .kind = (uint8_t)entry->kind,
                     .extent_first = s->tables.extent_count,
                     .tensor_first = s->tables.tensor_count,
                     .value_first = s->tables.value_count};

    TRY(pack_index_add_string(&row.path, &s->tables, entry->path, err));
    TRY(pack_index_add_string(&row.link, &s->tables, entry->link, err));
    TRY(pack_index_add_string(&row.format, &s->tables, "", err));
    TRY(pack_index_add_file(&ignored, &s->tables, &row, err));
out:
    return rc;
}

static int save_entries(saver *s, const walk *w, ckpt_error *err)
{
    int rc = 0;
    uint32_t in_library = 0;
    size_t large_left = 0;

    for (size_t i = 0; i < w->count; i++)
        large_left += w->entries[i].size >= SAVE_ROLL_FILE_BYTES_MIN;
    for (size_t i = 0; i < w->count; i++) {
        const walk_entry *const entry = &w->entries[i];
        if (entry->kind != CKPT_FILE) {
            TRY(save_entry_other(s, entry, err));
            continue;
        }
        bool gone = false;
        rc = save_entry_file(&gone, s, entry, err);
        if (gone && !entry->typed) { /* a program at work renames and removes its files */
            store_note(s->store, "%s is gone since the folder was listed; left out", entry->path);
            rc = error_clear(err);
        }
        TRY(rc);
        if (entry->size < SAVE_ROLL_FILE_BYTES_MIN)
            continue;
        /* Later files may be deltas of this one, once its frames stand in a closed pack. */
        if (--large_left > 0 && s->open_bytes >= SAVE_ROLL_FILE_BYTES_MIN && s->rolls < SAVE_ROLLS_MAX)
            TRY(saver_roll(s, err));
        TRY(reference_library_add(s->library, &s->tables, NULL, in_library, s->tables.file_count, err));
        in_library = s->tables.file_count;
    }
out:
    return rc;
}

/* Who asks for less and gets all of it should know. */
static void note_idle_rules(const saver *s)
{
    const transform_account *const a = &s->account;

    if (s->rules.optimizer_bf16 && !s->rules.weights_only && !a->rounded_tensors)
        store_note(s->store, "no f32 tensor of an optimizer was there to round");
    if (s->rules.weights_only && !a->stripped_tensors)
        store_note(s->store, "no tensor but weights was there to leave out");
    if (s->rules.drop_count && !a->dropped_tensors)
        store_note(s->store, "no tensor has a name that fits `%s`", s->rules.drop[0]);
}

int save_options_check(const ckpt_save_options *options, ckpt_error *err)
{
    int rc = 0;
    snapshot probe = {0};

    FAIL_IF(options->step < CKPT_STEP_NONE, err, CKPT_EUSAGE, "a step is not negative");
    FAIL_IF(!(options->parity >= 0 && options->parity <= 1), err, CKPT_EUSAGE, "a share of parity is from 0 to 1");
    FAIL_IF(!ckpt_level_name(options->level), err, CKPT_EUSAGE, "there is no level %d of saving", (int)options->level);
    TRY(snapshot_set_meta(&probe, options->message, options->meta, options->meta_count, err));
    if (options->tag)
        TRY(tag_check(options->tag, err));
    const transform_rules rules = transform_rules_of(options);
    TRY(transform_rules_check(&rules, err));
    for (size_t i = 0; i < options->meta_count; i++)
        FAIL_IF(strcmp(options->meta[i].key, CKPT_META_LOSSY) == 0, err, CKPT_EUSAGE,
                "the value `" CKPT_META_LOSSY "` is for what the save itself rounds or leaves out");
out:
    snapshot_clear(&probe);
    return rc;
}

static int entries_commit(ckpt_save_result *result, saver *s, const walk *w, uint64_t sequence,
                          const ckpt_save_options *options, ckpt_error *err)
{
    int rc = 0;

    TRY(saver_pack_open(s, err));
    TRY(save_entries(s, w, err));
    note_idle_rules(s);
    TRY(saver_commit(result, s, sequence, options, err));
out:
    return rc;
}

int saver_start(saver *s, uint64_t *sequence, ckpt_store *store, const ckpt_save_options *options, save_carry *carry,
                ckpt_error *err)
{
    int rc = 0;

    TRY(saver_open(s, sequence, store, options->level, carry, err));
    s->parity = options->parity > 0 ? options->parity : s->parity;
    s->rules = transform_rules_of(options);
    s->from_copy = options->from_copy;
    s->whole_only = options->whole_only;
    s->expected = options->expected;
out:
    return rc;
}

int ckpt_save_files(ckpt_save_result *result, ckpt_store *store, const char *const *paths, size_t count,
                    const ckpt_save_options *options, ckpt_error *err)
{
    int rc = 0;
    saver s = {.writer.tmp.fd = -1};
    walk w = {0};
    bool again = true;
    uint64_t sequence = 0;
    ckpt_save_result own;
    ckpt_save_options own_options = CKPT_SAVE_OPTIONS_INIT;

    result = result ? result : &own;
    *result = (ckpt_save_result){0};
    TRY(store_options(&own_options, sizeof own_options, options, err));
    options = &own_options;
    TRY(save_options_check(options, err));
    TRY(walk_paths(&w, paths, count, store->path, store->note, store->payload, err));
    TRY(save_check_parts(store, &w, err));
    for (int tries = 0; again; tries++) {
        TRY(saver_start(&s, &sequence, store, options, NULL, err));
        s.total_bytes = w.total_bytes;
        TRY(save_room(&again, &s, &w, NULL, tries > 0, err));
        if (!again) {
            rc = entries_commit(result, &s, &w, sequence, options, err);
            TRY(save_room_again(&again, rc, &s, tries > 0, err));
        }
    }
out:
    saver_close(&s);
    if (rc == CKPT_EQUOTA)
        save_room_leave(store);
    walk_clear(&w);
    return rc;
}

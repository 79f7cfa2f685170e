/* A bundle may come from a stranger: names are taken only in the forms below, bytes only with the right SHA-256. */
#include "bundle.h"

#include "content.h"
#include "feature.h"
#include "save_internal.h"
#include "setting.h"
#include "usage.h"
#include "zip_member.h"

#include "checked.h"
#include "fail.h"
#include "ini.h"
#include "units.h"

#include <ckpt/export.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TAG_TEXT_SIZE 65u /* id and line feed */

typedef struct importer {
    ckpt_store *store;
    ckpt_bundle_result *result;
    int fd;
    byte_source source;
    zip_dir dir;
    intent *intent;
    snapshot snap;
    char *snapshot_text;
    size_t snapshot_size;
    char snapshot_path[FILE_PATH_MAX]; /* where it will stand */
    unsigned char *piece;
    sha256_stream *stream;
    uint64_t done_bytes;
    double parity; /* share, as config.ini says */
} importer;

/* What stands behind the folder in the name of a member; NULL: it is in another one, or no file. */
static const char *member_in(const zip_entry *entry, const char *folder)
{
    const size_t size = strlen(folder);

    return strncmp(entry->name, folder, size) == 0 && entry->name[size] && !strchr(entry->name + size, '/')
               ? entry->name + size
               : NULL;
}

static int member_offset(uint64_t *offset, importer *m, const zip_entry *entry, ckpt_error *err)
{
    const int rc = zip_member_locate(offset, entry, &m->source, err);

    if (rc == CKPT_EFORMAT)
        error_hint(err, "unpack it with `unzip` and use the folder .ckpt in it as a store");
    return rc;
}

/* A small member, malloc'ed, with a 0 behind. */
static int member_text(char **text, importer *m, const zip_entry *entry, size_t size_max, ckpt_error *err)
{
    int rc = 0;
    uint64_t offset = 0;
    char *read = NULL;

    FAIL_IF(entry->size > size_max, err, CKPT_EDATA, "%.200s is too large", entry->name);
    TRY(member_offset(&offset, m, entry, err));
    read = calloc(1, (size_t)entry->size + 1);
    FAIL_IF_NULL(read, err);
    TRY(m->source.read(&m->source, read, offset, (size_t)entry->size, err));
    *text = read;
    read = NULL;
out:
    free(read);
    return rc;
}

/* ---- What it is ---- */

static int bundle_open(importer *m, const char *path, ckpt_error *err)
{
    int rc = 0;
    uint64_t size = 0;
    size_t count = 0;
    char *text = NULL;
    ini *config = NULL;
    tensor_file ignored = {0};

    TRY(file_open(&m->fd, &size, path, err));
    byte_source_fd(&m->source, m->fd, size, path);
    TRY(zip_member_directory(&m->dir, &ignored, &m->source, err));
    const zip_entry *const entry = zip_dir_find(&count, &m->dir, BUNDLE_CONFIG);
    FAIL_IF(!entry || count != 1, err, CKPT_EFORMAT, "it has no " BUNDLE_CONFIG);
    TRY(member_text(&text, m, entry, INI_SIZE_MAX, err));
    TRY(ini_parse(&config, text, (size_t)entry->size, BUNDLE_CONFIG, err));
    TRY(store_config_check(config, BUNDLE_CONFIG, err));
out:
    if (rc == CKPT_EFORMAT) {
        error_prefix(err, "%s is no bundle", path);
        error_hint(err, "`ckpt export NAME --to bundle` makes one");
    }
    ini_free(config);
    free(text);
    return rc;
}

static int snapshot_read_member(importer *m, const zip_entry *entry, const char *file, ckpt_error *err)
{
    int rc = 0;

    TRY(member_text(&m->snapshot_text, m, entry, SNAPSHOT_BYTES_MAX, err));
    m->snapshot_size = (size_t)entry->size;
    TRY(snapshot_decode(&m->snap, m->snapshot_text, m->snapshot_size, err));
    const snapshot_name name = {m->snap.sequence, m->snap.id};
    TRY(snapshot_path(m->snapshot_path, m->store->snapshots_dir, &name, err));
    FAIL_IF(strcmp(path_base(m->snapshot_path), file) != 0, err, CKPT_EDATA, "%.200s is not the name of that snapshot",
            file);
    FAIL_IF(m->snap.sequence > BUNDLE_SEQUENCE_MAX, err, CKPT_EDATA,
            "its checkpoint has the number %" PRIu64 ", which saves do not come to", m->snap.sequence);
out:
    return rc;
}

static int tag_check_member(importer *m, const zip_entry *entry, const char *tag, ckpt_error *err)
{
    int rc = 0;
    char *text = NULL, id[CKPT_ID_SIZE];

    rc = tag_check(tag, err);
    TRY(rc == CKPT_EUSAGE ? error_recode(err, CKPT_EDATA) : rc);
    TRY(member_text(&text, m, entry, TAG_TEXT_SIZE, err));
    sha256_hex(id, &m->snap.id);
    FAIL_IF(strncmp(text, id, CKPT_ID_SIZE - 1) != 0, err, CKPT_EDATA, "tag %.200s is not of its checkpoint", tag);
out:
    free(text);
    return rc;
}

/* The checkpoint's own files, before anything is written. */
static int checkpoint_read(importer *m, ckpt_error *err)
{
    int rc = 0;
    size_t found = 0;
    const zip_entry *const entries = m->dir.entries;

    for (size_t i = 0; i < m->dir.count; i++)
        found += member_in(&entries[i], BUNDLE_SNAPSHOTS) != NULL;
    FAIL_IF(found != 1, err, CKPT_EDATA, "it holds %zu snapshots instead of one", found);
    for (size_t i = 0; i < m->dir.count; i++) {
        const char *const file = member_in(&entries[i], BUNDLE_SNAPSHOTS);
        if (file)
            TRY(snapshot_read_member(m, &entries[i], file, err));
    }
    for (size_t i = 0; i < m->dir.count; i++) {
        const char *const tag = member_in(&entries[i], BUNDLE_TAGS);
        if (tag)
            TRY(tag_check_member(m, &entries[i], tag, err));
    }
out:
    return rc;
}

/* ---- Packs ---- */

/* Is there room for those that are not there? */
static int room_check(const importer *m, ckpt_error *err)
{
    int rc = 0;
    uint64_t needed = 0;
    ckpt_usage usage;
    char a[UNITS_TEXT_SIZE], b[UNITS_TEXT_SIZE];
    sha256 name;
    pack *there = NULL;

    for (size_t i = 0; i < m->dir.count; i++) {
        const char *const file = member_in(&m->dir.entries[i], BUNDLE_PACKS);
        if (file && pack_name_parse(&name, file) && pack_set_get(&there, m->store->packs, &name, NULL))
            FAIL_IF(!checked_add(&needed, needed, m->dir.entries[i].size), err, CKPT_EDATA,
                    "its packs are larger than any disk");
    }
    needed += (uint64_t)(m->parity * (double)needed);
    TRY(ckpt_usage_get(&usage, m->store, err));
    const uint64_t room = usage_room(&usage);
    format_size(a, needed);
    format_size(b, room);
    FAIL_IF(needed > room, err, room < usage.disk_free_bytes ? CKPT_EQUOTA : CKPT_ENOSPC,
            "the bundle needs %s, there is room for %s", a, b);
out:
    if (rc == CKPT_EQUOTA)
        error_hint(err, "`ckpt prune` makes room, `ckpt init --quota` another limit");
    return rc;
}

/* Copies a pack to a temporary file of the store; its SHA-256 must be its name. */
static int pack_copy(file_tmp *tmp, importer *m, const zip_entry *entry, const sha256 *name, ckpt_error *err)
{
    int rc = 0;
    uint64_t offset = 0;
    sha256 hash;
    const ckpt_store *const store = m->store;

    TRY(member_offset(&offset, m, entry, err));
    TRY(file_tmp_open(tmp, store->tmp_dir, "pack", err));
    sha256_restart(m->stream);
    for (uint64_t done = 0; done < entry->size;) {
        const uint64_t left = entry->size - done;
        const size_t n = left < BUNDLE_PIECE_BYTES ? (size_t)left : BUNDLE_PIECE_BYTES;
        TRY(m->source.read(&m->source, m->piece, offset + done, n, err));
        sha256_update(m->stream, m->piece, n);
        TRY(file_tmp_write(tmp, m->piece, n, err));
        done += n;
        m->done_bytes += n;
        FAIL_IF(store->progress && store->progress(store->payload, m->done_bytes, m->source.size), err,
                CKPT_EINTERRUPTED, "interrupted");
    }
    sha256_finish(&hash, m->stream);
    FAIL_IF(sha256_compare(&hash, name) != 0, err, CKPT_EDATA, "%.200s does not have the SHA-256 of its name",
            entry->name);
out:
    return rc;
}

/* The bytes of a pack that the store has already are not read; of one that is damaged there, what is replaced is kept.
 */
static int pack_import(importer *m, const zip_entry *entry, const sha256 *name, ckpt_error *err)
{
    int rc = 0;
    uint64_t bytes;
    file_tmp tmp = {.fd = -1};
    file_commit_plan plan = {0};
    pack *there = NULL, *opened = NULL;

    TRY(intent_add(m->intent, name, 1, err)); /* before it appears: prune must know whose it is */
    if (pack_set_get(&there, m->store->packs, name, NULL) == 0) {
        m->result->packs_there++;
        goto out;
    }
    TRY(pack_copy(&tmp, m, entry, name, err));
    /* What is no pack is none with the right hash too. */
    TRY(pack_open_file(&opened, tmp.path, entry->name, name, err));
    TRY(features_announce(m->store, pack_index_features(&opened->index), err));
    TRY(save_place_pack(&plan, &bytes, m->store, &tmp, name, m->parity, err));
    m->result->packs++;
    m->result->bytes += bytes;
    TRY(file_commit(&plan, err));
out:
    pack_close(opened);
    file_tmp_discard(&tmp);
    file_commit_discard(&plan);
    return rc;
}

static int packs_import(importer *m, ckpt_error *err)
{
    int rc = 0;
    sha256 name;

    for (size_t i = 0; i < m->dir.count; i++) {
        const char *const file = member_in(&m->dir.entries[i], BUNDLE_PACKS);
        if (file && pack_name_parse(&name, file))
            TRY(pack_import(m, &m->dir.entries[i], &name, err));
    }
out:
    return rc;
}

/* ---- The checkpoint ---- */

static int snapshot_commit(importer *m, ckpt_error *err)
{
    int rc = 0;
    pack *own = NULL;
    file_tmp tmp = {.fd = -1};
    file_commit_plan plan = {0};

    rc = content_snapshot_check(&own, m->store, &m->snap, err);
    TRY(rc == CKPT_ENOTFOUND ? error_recode(err, CKPT_EDATA) : rc);
    TRY(intent_take(m->intent, own->index.packs, own->index.pack_count, err));
    TRY(intent_check(m->intent, err)); /* no snapshot may name a pack that is gone */
    TRY(intent_keep(m->intent, &m->snap.id, err));
    TRY(file_tmp_open(&tmp, m->store->tmp_dir, "snapshot", err));
    TRY(file_tmp_write(&tmp, m->snapshot_text, m->snapshot_size, err));
    TRY(file_commit_add(&plan, &tmp, m->snapshot_path, false, err));
    TRY(file_commit(&plan, err));
    TRY(intent_check(m->intent, err));
    sha256_hex(m->result->id, &m->snap.id);
out:
    file_tmp_discard(&tmp);
    file_commit_discard(&plan);
    return rc;
}

/* Sets the tags that are free, or are its own already. */
static int tags_import(importer *m, ckpt_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < m->dir.count; i++) {
        const char *const tag = member_in(&m->dir.entries[i], BUNDLE_TAGS);
        if (!tag)
            continue;
        rc = ckpt_tag_set(m->store, tag, m->result->id, false, err);
        if (rc == CKPT_ECONFIRM) {
            rc = error_clear(err);
            m->result->tags_there++;
            store_note(m->store, "tag `%s` names another checkpoint here and stays there", tag);
            continue;
        }
        TRY(rc);
        m->result->tags++;
    }
out:
    return rc;
}

int ckpt_bundle_import(ckpt_bundle_result *result, ckpt_store *store, const char *path, ckpt_error *err)
{
    int rc = 0;
    ckpt_bundle_result own;
    importer m = {.store = store, .fd = -1};

    m.result = result ? result : &own;
    *m.result = (ckpt_bundle_result){0};
    store_packs_borrow(store);
    TRY(store_writable(store, err));
    TRY(bundle_open(&m, path, err));
    m.piece = malloc(BUNDLE_PIECE_BYTES);
    m.stream = sha256_new();
    FAIL_IF_NULL(m.piece && m.stream, err);
    TRY(intent_open(&m.intent, store, err));
    TRY(checkpoint_read(&m, err));
    TRY(setting_parity(&m.parity, store, err));
    TRY(room_check(&m, err));
    TRY(packs_import(&m, err));
    TRY(snapshot_commit(&m, err));
    TRY(tags_import(&m, err));
out:
    if (rc)
        error_where(err, path);
    intent_close(m.intent);
    zip_dir_clear(&m.dir);
    file_close(&m.fd);
    snapshot_clear(&m.snap);
    free(m.snapshot_text);
    free(m.piece);
    sha256_free(m.stream);
    store_packs_return(store);
    return rc;
}

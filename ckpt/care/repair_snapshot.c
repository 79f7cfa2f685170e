/* Snapshots that cannot be read.
 *
 * The id in a snapshot's name is the SHA-256 of its content, so that what was damaged can be tried out: the content may
 * be whole, and only what stands around it damaged; or one byte of it is wrong, and some byte makes it right. Else the
 * own pack still has the files, and gives a checkpoint of another id. */
#include "repair.h"

#include "damaged.h"
#include "fail.h"
#include "lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX    ((size_t)1 << 16)
#define CONTENT_TRIES_MAX 2048 /* bytes of content in which a wrong one is looked for */
#define HEAD              "{\"ckpt\":1,\"content\":"
#define DATA              ",\"data\":"
#define REMOVED_MEANWHILE "removed meanwhile: it stays so"

/* A damaged snapshot and what was found out about it. */
typedef struct remains {
    const snapshot_name *name;
    char *text;
    size_t size;
    snapshot snap; /* of the content, when that is whole */
    bool whole, one_byte;
} remains;

/* ---- Content ---------------------------------------------------------------------------------------------------- */

static bool has_id(const char *content, size_t size, const sha256 *id)
{
    sha256 hash;

    sha256_of(&hash, content, size);
    return sha256_compare(&hash, id) == 0;
}

/* Content that stands where the writer puts it, up to any of the braces. */
static size_t content_find(const remains *m)
{
    const size_t from = strlen(HEAD);

    for (size_t i = from; i < m->size && i < SNAPSHOT_BYTES_MAX; i++)
        if (m->text[i] == '}' && has_id(m->text + from, i + 1 - from, &m->name->id))
            return i + 1 - from;
    return 0;
}

/* The same with one byte of it wrong, which is put right in the text. */
static size_t content_mend(const remains *m)
{
    const size_t from = strlen(HEAD);
    const char *const end = m->size > from ? strstr(m->text + from, DATA) : NULL;
    const size_t size = end ? (size_t)(end - m->text) - from : 0;

    for (size_t i = 0; i < size && size <= CONTENT_TRIES_MAX; i++) {
        char *const byte = m->text + from + i;
        const char was = *byte;
        for (int value = 0; value < 256; value++) {
            *byte = (char)value;
            if (has_id(m->text + from, size, &m->name->id))
                return size;
        }
        *byte = was;
    }
    return 0;
}

/* Reads the content as a snapshot whose pack is not known yet. */
static bool content_decode(snapshot *out, const remains *m, size_t size)
{
    static const char TAIL[] = DATA "{\"pack\":\"%064d\",\"stored_bytes\":0}}";
    char text[SNAPSHOT_BYTES_MAX + sizeof HEAD + sizeof TAIL + 64];
    const int length = snprintf(text, sizeof text, HEAD "%.*s" DATA "{\"pack\":\"%064d\",\"stored_bytes\":0}}",
                                (int)size, m->text + strlen(HEAD), 0);

    return length > 0 && (size_t)length < sizeof text && snapshot_decode(out, text, (size_t)length, NULL) == 0;
}

static int remains_read(remains *m, const repairer *r, const snapshot_name *name, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    ckpt_error why = {0};

    *m = (remains){.name = name};
    TRY(snapshot_path(path, r->store->snapshots_dir, name, err));
    if (file_read_all(&m->text, &m->size, path, TEXT_BYTES_MAX, &why)) {
        TRY(error_pass_own(err, &why));
        m->size = 0;
        goto out;
    }
    size_t size = content_find(m);
    if (!size) {
        size = content_mend(m);
        m->one_byte = size > 0;
    }
    m->whole = size > 0 && content_decode(&m->snap, m, size);
out:
    return rc;
}

static void remains_clear(remains *m)
{
    snapshot_clear(&m->snap);
    free(m->text);
    *m = (remains){0};
}

/* ---- The own pack ----------------------------------------------------------------------------------------------- */

/* What the tables of a pack say of the checkpoint whose own pack it is. */
typedef struct own_facts {
    sha256 pack, tree;
    uint64_t files, raw_bytes, size;
    int64_t mtime;
} own_facts;

static int facts_read(bool *any, own_facts *out, const repairer *r, const reach_pack *p, ckpt_error *err)
{
    int rc = 0;
    pack *own = NULL;
    ckpt_error why;

    *any = false;
    if (pack_open(&own, r->store->packs_dir, &p->name, &why)) {
        TRY(error_pass_own(err, &why));
        goto out;
    }
    *out = (own_facts){.pack = p->name, .files = own->index.file_count, .size = p->size, .mtime = p->mtime};
    TRY(pack_index_tree(&out->tree, &own->index, err));
    for (uint32_t i = 0; i < own->index.file_count; i++)
        out->raw_bytes += own->index.files[i].size;
    *any = out->files > 0;
out:
    pack_close(own);
    return rc;
}

/* Does the damaged text have the digits of this pack? */
static bool text_names(const remains *m, const sha256 *name)
{
    char hex[SHA256_HEX_SIZE];

    sha256_hex(hex, name);
    return m->size > 0 && strstr(m->text, hex) != NULL;
}

/* The own pack: that which has the files of the content; else that whose name stands in the text; else the only one
 * that no checkpoint needs. */
static int own_find(bool *found, own_facts *out, const repairer *r, const remains *m, ckpt_error *err)
{
    int rc = 0;
    bool any;
    own_facts facts, spare = {0};
    size_t spares = 0;

    *found = false;
    for (uint32_t i = 0; i < r->reach.count && !*found; i++) {
        const reach_pack *const p = &r->reach.packs[i];
        if (p->why)
            continue;
        TRY(facts_read(&any, &facts, r, p, err));
        if (!any)
            continue;
        *found = m->whole ? sha256_compare(&facts.tree, &m->snap.tree) == 0 && facts.files == m->snap.files
                          : text_names(m, &p->name);
        if (*found)
            *out = facts;
        else if (!p->needed && hash_set_has(&r->sound, &p->name) && spares++ == 0)
            spare = facts;
    }
    if (!*found && !m->whole && spares == 1) {
        *found = true;
        *out = spare;
    }
out:
    return rc;
}

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

/* May the checkpoint of an own pack still be made? Under the lease `prune` the answer stays true. While there is a
 * damaged snapshot nobody removes packs; without one, what has no checkpoint may have gone. */
static int own_look(bool *there, const repairer *r, const own_facts *own, const snapshot_name *damaged, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX], why[REACH_WHY_SIZE];
    struct stat st;
    reach now = {0};

    if (damaged) {
        TRY(snapshot_path(path, r->store->snapshots_dir, damaged, err));
        *there = lstat(path, &st) == 0;
        goto out;
    }
    TRY(reach_new(&now, r->store, err));
    TRY(reach_check(why, NULL, &now, &own->pack, err));
    *there = !why[0];
out:
    reach_clear(&now);
    return rc;
}

/* Writes the snapshot of an own pack. `damaged` is the one that it is made from; NULL: none. *put is false when others
 * removed meanwhile what it is made from. */
static int snapshot_put(bool *put, repairer *r, snapshot *s, const own_facts *own, const snapshot_name *damaged,
                        ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX], *text = NULL;
    size_t size;
    struct stat st;
    lease *exclusive = NULL;

    *put = true;
    s->pack = own->pack;
    s->stored_bytes = own->size;
    TRY(snapshot_encode(&text, &size, s, err));
    if (r->dry_run)
        goto out;
    const snapshot_name name = {s->sequence, s->id};
    TRY(snapshot_path(path, r->store->snapshots_dir, &name, err));
    TRY(prune_lease_take(&exclusive, r->store, INTENT_WAIT_MS, err));
    TRY(own_look(put, r, own, damaged, err));
    if (!*put)
        goto out;
    if (lstat(path, &st) == 0)
        TRY(damaged_keep(r->store, path, err));
    TRY(file_replace(path, r->store->tmp_dir, text, size, err));
    r->changed = true;
out:
    lease_release(exclusive);
    free(text);
    return rc;
}

/* Moves the damaged snapshot to damaged/. */
static int snapshot_set_aside(repairer *r, const snapshot_name *name, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    struct stat st;
    lease *exclusive = NULL;

    TRY(snapshot_path(path, r->store->snapshots_dir, name, err));
    TRY(prune_lease_take(&exclusive, r->store, INTENT_WAIT_MS, err));
    if (lstat(path, &st) == 0)
        TRY(damaged_move(r->store, path, err));
    r->changed = true;
out:
    lease_release(exclusive);
    return rc;
}

/* Lets the tags of a checkpoint name the one that was made in its place. */
static int tags_follow(size_t *count, repairer *r, const sha256 *from, const sha256 *to, ckpt_error *err)
{
    int rc = 0;
    tag_row *tags = NULL;
    size_t tag_count = 0;
    char hex[SHA256_HEX_SIZE];

    *count = 0;
    sha256_hex(hex, to);
    TRY(tag_rows(&tags, &tag_count, r->store, err));
    for (size_t i = 0; i < tag_count; i++) {
        if (sha256_compare(&tags[i].id, from) != 0)
            continue;
        ++*count;
        if (!r->dry_run)
            TRY(ckpt_tag_set(r->store, tags[i].name, hex, true, err));
    }
out:
    tag_rows_free(tags, tag_count);
    return rc;
}

/* A checkpoint from its tables alone. */
static int snapshot_invent(snapshot *out, const own_facts *own, uint64_t sequence, const char *message, ckpt_error *err)
{
    int rc = 0;

    *out = (snapshot){.sequence = sequence,
                      .files = own->files,
                      .raw_bytes = own->raw_bytes,
                      .time = own->mtime,
                      .step = CKPT_STEP_NONE,
                      .tree = own->tree,
                      .pack = own->pack};
    TRY(snapshot_set_meta(out, message, NULL, 0, err));
out:
    return rc;
}

/* ---- One damaged snapshot --------------------------------------------------------------------------------------- */

static int rebuild_exactly(ckpt_repair_row *row, repairer *r, remains *m, const own_facts *own, ckpt_error *err)
{
    int rc = 0;
    bool put;

    TRY(snapshot_put(&put, r, &m->snap, own, m->name, err));
    if (put && m->snap.sequence != m->name->sequence && !r->dry_run) /* a copy under a number that is not its own */
        TRY(snapshot_set_aside(r, m->name, err));
    REPAIR_SAY(row->action, "%s",
               !put          ? REMOVED_MEANWHILE
               : m->one_byte ? "written as it was: its id tells which byte was wrong"
                             : "written as it was: its pack was found by its files");
    row->mended = true;
out:
    return rc;
}

static int rebuild_anew(ckpt_repair_row *row, repairer *r, const remains *m, const own_facts *own, ckpt_error *err)
{
    int rc = 0;
    bool put;
    size_t tags;
    snapshot made = {0};
    char message[160], old[SHA256_HEX_SIZE], new[SHA256_HEX_SIZE], moved[64] = "";

    sha256_hex(old, &m->name->id);
    snprintf(message, sizeof message, "rebuilt by `ckpt repair` from the pack of %.8s, whose snapshot was damaged",
             old);
    TRY(snapshot_invent(&made, own, m->name->sequence, message, err));
    TRY(snapshot_put(&put, r, &made, own, m->name, err));
    row->mended = true;
    if (!put) {
        REPAIR_SAY(row->action, REMOVED_MEANWHILE);
        goto out;
    }
    TRY(tags_follow(&tags, r, &m->name->id, &made.id, err));
    if (!r->dry_run)
        TRY(snapshot_set_aside(r, m->name, err));
    if (tags > 0)
        snprintf(moved, sizeof moved, "; %zu of its tags moved", tags);
    sha256_hex(new, &made.id);
    REPAIR_SAY(row->action,
               "made anew as %.8s: number, files and tree are as saved; message, step, values and time are lost%s", new,
               moved);
out:
    snapshot_clear(&made);
    return rc;
}

static int entry_mend(repairer *r, const repair_entry *e, ckpt_error *err)
{
    int rc = 0;
    remains m = {0};
    own_facts own;
    bool found;
    char hex[SHA256_HEX_SIZE];
    ckpt_repair_row *row;
    snapshot unread;
    ckpt_error why = {0};

    (void)snapshot_read(&unread, r->store->snapshots_dir, &e->name, &why);
    if (why.code == CKPT_EVERSION ||
        why.code == CKPT_ENOTFOUND) /* newer is no damage; gone is not ours to bring back */
        goto out;
    sha256_hex(hex, &e->name.id);
    TRY(remains_read(&m, r, &e->name, err));
    TRY(own_find(&found, &own, r, &m, err));
    TRY(repair_row(&row, r, "snapshot", hex, err));
    REPAIR_SAY(row->state, "%s", why.message);
    if (found && m.whole)
        TRY(rebuild_exactly(row, r, &m, &own, err));
    else if (found)
        TRY(rebuild_anew(row, r, &m, &own, err));
    else
        REPAIR_SAY(row->action, "kept: no pack here is known to hold its files%s",
                   m.whole ? "; what it says is whole" : "");
out:
    remains_clear(&m);
    return rc;
}

/* ---- Packs that no snapshot names ------------------------------------------------------------------------------- */

/* Does another pack that no checkpoint needs name it? Then it was closed before the last one of a save. */
static bool is_part(const repairer *r, const reach_pack *p)
{
    for (uint32_t i = 0; i < r->reach.count; i++) {
        const reach_pack *const other = &r->reach.packs[i];
        for (uint32_t k = 0; !other->needed && k < other->need_count; k++)
            if (&r->reach.packs[other->needs[k]] == p)
                return true;
    }
    return false;
}

static int pack_adopt(repairer *r, const own_facts *own, uint64_t *sequence, ckpt_error *err)
{
    int rc = 0;
    bool put;
    snapshot made = {0};
    char hex[SHA256_HEX_SIZE], id[SHA256_HEX_SIZE], message[160];
    ckpt_repair_row *row;

    sha256_hex(hex, &own->pack);
    snprintf(message, sizeof message, "adopted by `ckpt repair`: the pack %.8s, which no checkpoint named", hex);
    TRY(snapshot_invent(&made, own, (*sequence)++, message, err));
    TRY(snapshot_put(&put, r, &made, own, NULL, err));
    if (!put)
        goto out;
    sha256_hex(id, &made.id);
    TRY(repair_row(&row, r, "snapshot", hex, err));
    REPAIR_SAY(row->state, "no checkpoint names this pack of %" PRIu64 " files", own->files);
    REPAIR_SAY(row->action, "made the checkpoint %.8s of it; message, step, values and time are not known", id);
    row->mended = true;
out:
    snapshot_clear(&made);
    return rc;
}

static int lost_look(repairer *r, ckpt_error *err)
{
    int rc = 0;
    bool any;
    own_facts own;
    uint64_t sequence = 1, idle = 0;

    if (r->unknown)
        goto out; /* they may be what the damaged checkpoints need */
    if (r->entry_count > 0)
        sequence = r->entries[0].name.sequence + 1;
    for (uint32_t i = 0; i < r->reach.count; i++) {
        const reach_pack *const p = &r->reach.packs[i];
        if (p->needed || p->why || p->lacks || !hash_set_has(&r->sound, &p->name) || is_part(r, p))
            continue;
        TRY(facts_read(&any, &own, r, p, err));
        if (any && r->adopt)
            TRY(pack_adopt(r, &own, &sequence, err));
        else
            idle += any;
    }
    if (idle > 0)
        store_note(r->store,
                   "%" PRIu64 " packs with files that no checkpoint names: left of `ckpt rm` or of a save that was "
                   "stopped, or their snapshots are lost; `ckpt repair --adopt` makes checkpoints of them",
                   idle);
out:
    return rc;
}

int repair_snapshots(repairer *r, ckpt_error *err)
{
    int rc = 0;
    bool any = false;

    for (size_t i = 0; i < r->entry_count; i++) {
        if (r->entries[i].readable)
            continue;
        TRY(repair_progress(r, 0, err)); /* each may take a second */
        TRY(entry_mend(r, &r->entries[i], err));
        any = true;
    }
    if (any && !r->dry_run)
        TRY(repair_survey(r, err));
    TRY(lost_look(r, err));
out:
    return rc;
}

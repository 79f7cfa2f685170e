#include "reference.h"

#include "array.h"
#include "fail.h"
#include "walk.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SHARE_FILES_MAX 64 /* files whose tensor names are compared with those of a new file */

typedef struct name_row {
    uint64_t hash; /* of the canonical name */
    uint32_t tensor;
} name_row;

struct reference_file {
    const pack_index *index;
    pack *self;
    uint32_t file;
    uint64_t path_hash, stem_hash;
    name_row *names;  /* sorted by hash */
    uint64_t *starts; /* file offset of each extent */
};

struct reference_library {
    pack_set *packs;
    reference_file *files; /* oldest first */
    size_t count, capacity;
};

static uint64_t text_hash(const char *text)
{
    return xxh64_of(text, strlen(text));
}

/* Hash of a path in which every run of digits counts as one '#'. */
static uint64_t stem_hash(const char *path)
{
    char stem[FILE_PATH_MAX];
    size_t n = 0;

    for (const char *p = path; *p && n + 1 < sizeof stem; p++) {
        if (!isdigit((unsigned char)*p))
            stem[n++] = *p;
        else if (n == 0 || stem[n - 1] != '#')
            stem[n++] = '#';
    }
    return xxh64_of(stem, n);
}

static const pack_file *file_row(const reference_file *f)
{
    return &f->index->files[f->file];
}

static int name_row_compare(const void *a, const void *b)
{
    const uint64_t x = ((const name_row *)a)->hash, y = ((const name_row *)b)->hash;
    return x < y ? -1 : x > y;
}

int reference_library_new(reference_library **out, pack_set *packs, ckpt_error *err)
{
    reference_library *const l = calloc(1, sizeof *l);

    if (!l)
        return error_memory(err);
    l->packs = packs;
    *out = l;
    return 0;
}

void reference_library_free(reference_library *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->count; i++) {
        free(l->files[i].names);
        free(l->files[i].starts);
    }
    free(l->files);
    free(l);
}

static int library_add_file(reference_library *l, const pack_index *index, pack *self, uint32_t number, ckpt_error *err)
{
    int rc = 0;
    const pack_file *const row = &index->files[number];

    reference_file *grown = array_room(l->files, &l->capacity, l->count + 1, sizeof *grown);
    FAIL_IF_NULL(grown, err);
    l->files = grown;
    reference_file *const f = &l->files[l->count];
    *f = (reference_file){.index = index, .self = self, .file = number};
    f->names = calloc((size_t)row->tensor_count + 1, sizeof *f->names);
    f->starts = calloc((size_t)row->extent_count + 1, sizeof *f->starts);
    l->count++;
    FAIL_IF_NULL(f->names && f->starts, err);

    const char *path = pack_string(index, row->path);
    f->path_hash = text_hash(path);
    f->stem_hash = stem_hash(path);
    for (uint32_t i = 0; i < row->tensor_count; i++) {
        const pack_tensor *t = &index->tensors[row->tensor_first + i];
        f->names[i] = (name_row){text_hash(tensor_name_canonical(pack_string(index, t->name))), row->tensor_first + i};
    }
    qsort(f->names, row->tensor_count, sizeof *f->names, name_row_compare);
    uint64_t start = 0;
    for (uint32_t i = 0; i < row->extent_count; i++) {
        f->starts[i] = start;
        start += index->extents[row->extent_first + i].size;
    }
out:
    return rc;
}

int reference_library_add(reference_library *l, const pack_index *index, pack *self, uint32_t first, uint32_t last,
                          ckpt_error *err)
{
    int rc = 0;

    for (uint32_t i = first; i < last; i++)
        if (index->files[i].kind == CKPT_FILE && index->files[i].extent_count > 0)
            TRY(library_add_file(l, index, self, i, err));
out:
    return rc;
}

/* The row of the first of equal hashes, or NULL. */
static const name_row *find_name(const reference_file *f, uint64_t hash)
{
    size_t low = 0, high = file_row(f)->tensor_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (f->names[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low < file_row(f)->tensor_count && f->names[low].hash == hash ? &f->names[low] : NULL;
}

static size_t shared_names(const reference_file *f, const tensor_file *file)
{
    size_t shared = 0;

    for (size_t i = 0; i < file->count; i++)
        shared += find_name(f, text_hash(tensor_name_canonical(file->tensors[i].name))) != NULL;
    return shared;
}

/* Of two files with one stem: the one that stands before `path` and nearest to it, then the newer one. */
static bool stem_better(const reference_file *candidate, const reference_file *best, const char *path)
{
    if (!best)
        return true;
    const char *const a = pack_string(candidate->index, file_row(candidate)->path);
    const char *const b = pack_string(best->index, file_row(best)->path);
    const bool a_before = natural_compare(a, path) < 0, b_before = natural_compare(b, path) < 0;
    if (a_before != b_before)
        return a_before;
    const int order = natural_compare(a, b);
    return order != 0 && (a_before ? order > 0 : order < 0); /* of equal ones the newer was seen first */
}

size_t reference_files(const reference_file *out[REFERENCE_FILES_MAX], const reference_library *l, const char *path,
                       const tensor_file *file)
{
    const uint64_t path_hash = text_hash(path), stem = stem_hash(path);
    const reference_file *same = NULL, *numbered = NULL, *named = NULL;
    size_t shared_most = file->count / 2, looked_at = 0;

    for (size_t i = l->count; i-- > 0;) { /* newest first */
        const reference_file *const f = &l->files[i];
        if (f->path_hash == path_hash) {
            if (!same)
                same = f;
        } else if (f->stem_hash == stem && stem_better(f, numbered, path)) {
            numbered = f;
        }
        if (file->count > 0 && file_row(f)->tensor_count > 0 && looked_at < NAME_SHARE_FILES_MAX) {
            looked_at++;
            const size_t shared = shared_names(f, file);
            if (shared > shared_most) {
                shared_most = shared;
                named = f;
            }
        }
    }
    size_t n = 0;
    if (same)
        out[n++] = same;
    if (numbered)
        out[n++] = numbered;
    if (named && named != same && named != numbered)
        out[n++] = named;
    return n;
}

/* The tensor of f that is paired with a view: same canonical name, dtype and shape. */
static const pack_tensor *paired_tensor(const reference_file *f, const tensor_view *view)
{
    const char *const name = tensor_name_canonical(view->name);
    const pack_index *const index = f->index;
    const uint64_t hash = text_hash(name);
    const name_row *const end = f->names + file_row(f)->tensor_count;

    for (const name_row *row = find_name(f, hash); row && row < end && row->hash == hash; row++) {
        const pack_tensor *const t = &index->tensors[row->tensor];
        if (t->dtype != view->dtype || t->rank != view->rank ||
            strcmp(tensor_name_canonical(pack_string(index, t->name)), name) != 0)
            continue;
        if (view->rank == 0 || memcmp(&index->dims[t->dim_first], view->shape, view->rank * sizeof *view->shape) == 0)
            return t;
    }
    return NULL;
}

/* Number, within the file, of the extent that holds a byte of it. */
static uint32_t extent_at(const reference_file *f, uint64_t offset)
{
    uint32_t low = 0, high = file_row(f)->extent_count;

    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (f->starts[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool resolve(frame_at *out, const reference_library *l, const reference_file *f, const pack_extent *e)
{
    out->frame = e->frame;
    if (e->pack == 0) {
        out->pack = f->self;
        return f->self != NULL;
    }
    return pack_set_get(&out->pack, l->packs, &f->index->packs[e->pack - 1], NULL) == 0 &&
           out->frame < out->pack->index.frame_count;
}

static const pack_frame *row_of(frame_at at)
{
    return &at.pack->index.frames[at.frame];
}

bool reference_tensor(frame_at *out, const reference_library *l, const reference_file *f, const tensor_view *view,
                      uint32_t piece)
{
    const pack_tensor *const t = paired_tensor(f, view);

    if (!t || t->span_bytes == 0)
        return false;
    const uint64_t at = extent_at(f, t->offset) + (uint64_t)piece;
    if (at >= file_row(f)->extent_count)
        return false;
    const pack_extent *const e = &f->index->extents[file_row(f)->extent_first + at];
    return e->frame_offset == 0 && resolve(out, l, f, e) && row_of(*out)->kind == FRAME_TENSOR;
}

bool reference_group(frame_at *out, const reference_library *l, const reference_file *f, const tensor_view *view)
{
    const pack_tensor *const t = paired_tensor(f, view);

    if (!t || t->span_bytes == 0)
        return false;
    const pack_extent *const e = &f->index->extents[file_row(f)->extent_first + extent_at(f, t->offset)];
    return resolve(out, l, f, e) && row_of(*out)->kind == FRAME_GROUP;
}

bool reference_other(frame_at *out, const reference_library *l, const reference_file *f, uint64_t offset)
{
    const pack_file *const row = file_row(f);
    const pack_extent *const extents = &f->index->extents[row->extent_first];

    if (offset < row->size && resolve(out, l, f, &extents[extent_at(f, offset)]) && row_of(*out)->kind == FRAME_OTHER)
        return true;
    for (uint32_t i = 0; i < row->extent_count && i < 64; i++)
        if (resolve(out, l, f, &extents[i]) && row_of(*out)->kind == FRAME_OTHER)
            return true;
    return false;
}

/* The next frame of the chain; *ends when `at` has no reference. */
static int chain_step(bool *ends, frame_at *at, pack_set *packs, ckpt_error *err)
{
    const pack_frame *const row = row_of(*at);

    *ends = row->reference_pack == PACK_NONE;
    return *ends ? 0 : pack_set_follow(at, packs, at->pack, row->reference_pack, row->reference_frame, err);
}

int reference_chain(const pack *out[REFERENCE_CHAIN_MAX], size_t *count, pack_set *packs, frame_at at, ckpt_error *err)
{
    int rc = 0;
    bool ends = false;

    *count = 0;
    for (size_t steps = 0; !ends; steps++) {
        FAIL_IF(steps == REFERENCE_CHAIN_MAX, err, CKPT_EDATA, "a chain of references is too long");
        bool known = false;
        for (size_t i = 0; i < *count; i++)
            known = known || out[i] == at.pack;
        if (!known)
            out[(*count)++] = at.pack;
        TRY(chain_step(&ends, &at, packs, err));
    }
out:
    return rc;
}

bool reference_usable(frame_at *at, pack_set *packs)
{
    const bool at_limit = row_of(*at)->depth >= PACK_DEPTH_WRITE_MAX;
    frame_at root = *at;
    bool ends = false;

    for (size_t steps = 0; !ends; steps++)
        if (steps == REFERENCE_CHAIN_MAX || chain_step(&ends, &root, packs, NULL))
            return false;
    if (at_limit)
        *at = root;
    return true;
}

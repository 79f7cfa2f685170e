#include "bundle.h"

#include "content.h"
#include "feature.h"
#include "restore_path.h"
#include "zip_writer.h"

#include "fail.h"
#include "ini.h"

#include <ckpt/export.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBER_SIZE (sizeof BUNDLE_SNAPSHOTS + FILE_PATH_MAX)

typedef struct bundler {
    ckpt_store *store;
    const char *path;
    ckpt_bundle_result *result;
    file_tmp tmp;
    zip_writer zip;
    unsigned char *piece;
    sha256_stream *stream;
    uint64_t done_bytes, total_bytes;
} bundler;

static int member_write(bundler *b, const char *folder, const char *name, const void *data, size_t size,
                        ckpt_error *err)
{
    int rc = 0;
    char member[MEMBER_SIZE];

    snprintf(member, sizeof member, "%s%s", folder, name);
    TRY(zip_writer_begin(&b->zip, member, size, 1, err));
    TRY(zip_writer_data(&b->zip, data, size, err));
    TRY(zip_writer_end(&b->zip, err));
out:
    return rc;
}

static int pack_write(bundler *b, const pack *p, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX], member[MEMBER_SIZE];
    sha256 hash;
    const ckpt_store *const store = b->store;

    TRY(pack_path(path, store->packs_dir, &p->name, err));
    snprintf(member, sizeof member, BUNDLE_PACKS "%s", path_base(path));
    TRY(zip_writer_begin(&b->zip, member, p->size, 1, err));
    sha256_restart(b->stream);
    for (uint64_t done = 0; done < p->size;) {
        const size_t n = p->size - done < BUNDLE_PIECE_BYTES ? (size_t)(p->size - done) : BUNDLE_PIECE_BYTES;
        TRY(pack_read_bytes(b->piece, p, done, n, err));
        sha256_update(b->stream, b->piece, n);
        TRY(zip_writer_data(&b->zip, b->piece, n, err));
        done += n;
        b->done_bytes += n;
        FAIL_IF(store->progress && store->progress(store->payload, b->done_bytes, b->total_bytes), err,
                CKPT_EINTERRUPTED, "interrupted");
    }
    sha256_finish(&hash, b->stream);
    FAIL_IF(sha256_compare(&hash, &p->name) != 0, err, CKPT_EDATA, "pack %.8s does not have the SHA-256 of its name",
            path_base(path));
    TRY(zip_writer_end(&b->zip, err));
    b->result->packs++;
out:
    return rc;
}

/* That of a new store which knows what these packs need. */
static int config_write(bundler *b, uint32_t features, ckpt_error *err)
{
    int rc = 0;
    char *text = NULL, *written = NULL;
    size_t size = 0;
    bool changed;
    ini *config = NULL;

    TRY(store_config_new(&text, err));
    TRY(ini_parse(&config, text, strlen(text), BUNDLE_CONFIG, err));
    TRY(features_list(&changed, config, features, err));
    TRY(ini_write(&written, &size, config, err));
    TRY(member_write(b, "", BUNDLE_CONFIG, written, size, err));
out:
    ini_free(config);
    free(text);
    free(written);
    return rc;
}

static int snapshot_copy(bundler *b, const snapshot *snap, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX], *text = NULL;
    size_t size = 0;
    const snapshot_name name = {snap->sequence, snap->id};

    TRY(snapshot_path(path, b->store->snapshots_dir, &name, err));
    TRY(file_read_all(&text, &size, path, SNAPSHOT_BYTES_MAX, err));
    TRY(member_write(b, BUNDLE_SNAPSHOTS, path_base(path), text, size, err));
out:
    free(text);
    return rc;
}

static int tags_write(bundler *b, const ckpt_info *info, ckpt_error *err)
{
    int rc = 0;
    char text[CKPT_ID_SIZE + 1];

    snprintf(text, sizeof text, "%s\n", info->id);
    for (size_t i = 0; i < info->tag_count; i++)
        TRY(member_write(b, BUNDLE_TAGS, info->tags[i], text, strlen(text), err));
    b->result->tags = info->tag_count;
out:
    return rc;
}

/* All members, in the order in which an import needs them. */
static int content_write(bundler *b, ckpt_content *content, ckpt_error *err)
{
    int rc = 0;
    const pack *const own = content->pack;
    const uint32_t count = own->index.pack_count;
    uint32_t features = pack_index_features(&own->index);
    pack **const packs = calloc((size_t)count + 1, sizeof *packs);

    FAIL_IF_NULL(packs, err);
    b->total_bytes = own->size;
    for (uint32_t i = 0; i < count; i++) {
        TRY(pack_set_get(&packs[i], b->store->packs, &own->index.packs[i], err));
        features |= pack_index_features(&packs[i]->index);
        b->total_bytes += packs[i]->size;
    }
    TRY(config_write(b, features, err));
    for (uint32_t i = 0; i < count; i++)
        TRY(pack_write(b, packs[i], err));
    TRY(pack_write(b, own, err));
    TRY(snapshot_copy(b, &content->snap, err));
    TRY(tags_write(b, &content->info, err));
    TRY(zip_writer_finish(&b->zip, err));
out:
    free(packs);
    return rc;
}

/* One try, of one checkpoint: a content_work_fn. */
static int bundle_content(void *payload, ckpt_content **content, ckpt_error *err)
{
    int rc = 0;
    bundler *const b = payload;
    char folder[FILE_PATH_MAX];
    file_commit_plan plan = {0};

    *b->result = (ckpt_bundle_result){0};
    memcpy(b->result->id, (*content)->info.id, sizeof b->result->id);
    b->done_bytes = 0;
    TRY(path_parent(folder, b->path, err));
    sweep_restored(folder);
    TRY(file_tmp_open(&b->tmp, folder, path_base(b->path), err));
    b->zip = (zip_writer){.out = &b->tmp};
    TRY(content_write(b, *content, err));
    b->result->bytes = b->tmp.size_bytes;
    TRY(file_commit_add(&plan, &b->tmp, b->path, true, err));
    TRY(file_commit(&plan, err));
out:
    zip_writer_clear(&b->zip);
    file_tmp_discard(&b->tmp);
    file_commit_discard(&plan);
    return rc;
}

int ckpt_bundle_write(ckpt_bundle_result *result, ckpt_store *store, const char *name, const char *path, bool overwrite,
                      ckpt_error *err)
{
    int rc = 0;
    bool fell_back = false;
    ckpt_bundle_result own;
    bundler b = {.store = store, .path = path, .tmp.fd = -1};

    b.result = result ? result : &own;
    *b.result = (ckpt_bundle_result){0};
    TRY(restore_target_check(path, overwrite, err));
    b.piece = malloc(BUNDLE_PIECE_BYTES);
    b.stream = sha256_new();
    FAIL_IF_NULL(b.piece && b.stream, err);
    TRY(content_work(&fell_back, store, name, bundle_content, &b, err));
out:
    if (rc)
        *b.result = (ckpt_bundle_result){0};
    free(b.piece);
    sha256_free(b.stream);
    return rc;
}

/* Whole packs: the input is what stands in the frames, and the tables; the checks around them are made right, so that
 * damage gets past them. Whatever opens, every chunk of every frame is decoded or refused.
 *
 *   input := frames_size:u32 frames tables */
#include "fuzz.h"

#include "bytes.h"
#include "pack.h"
#include "pack_format.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

static const sha256 NAME;

/* Writes the pack of this input as the only one of a folder in memory, where there is one. */
static void write_pack(const char *path, const uint8_t *frames, size_t frames_size, const uint8_t *tables, size_t size)
{
    unsigned char header[PACK_HEADER_SIZE] = PACK_MAGIC, footer[PACK_FOOTER_SIZE];
    const size_t capacity = ZSTD_compressBound(size);
    unsigned char *coded = malloc(capacity);
    CHECK(coded);
    const size_t coded_size = ZSTD_compress(coded, capacity, tables, size, 1);
    CHECK(!ZSTD_isError(coded_size));

    header[8] = PACK_VERSION;
    header[10] = PACK_CHUNK_LOG2;
    store_u64(footer, PACK_HEADER_SIZE + frames_size);
    store_u64(footer + 8, coded_size);
    store_u64(footer + 16, size);
    store_u64(footer + 24, xxh64_of(coded, coded_size));
    store_u64(footer + 32, PACK_HEADER_SIZE + frames_size + coded_size + PACK_FOOTER_SIZE);
    memcpy(footer + 40, PACK_FOOTER_MAGIC, PACK_MAGIC_SIZE);

    FILE *out = fopen(path, "wb");
    CHECK(out);
    CHECK(fwrite(header, 1, sizeof header, out) == sizeof header);
    CHECK(fwrite(frames, 1, frames_size, out) == frames_size);
    CHECK(fwrite(coded, 1, coded_size, out) == coded_size);
    CHECK(fwrite(footer, 1, sizeof footer, out) == sizeof footer);
    CHECK(fclose(out) == 0);
    free(coded);
}

static void read_frames(frame_reader *reader, pack *p, unsigned char *chunk)
{
    for (uint32_t frame = 0; frame < p->index.frame_count && frame < 32; frame++)
        for (uint32_t i = 0; i < pack_frame_chunks(&p->index.frames[frame]) && i < 4; i++)
            (void)frame_read_chunk(chunk, reader, (frame_at){p, frame}, i, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char dir[64], path[FILE_PATH_MAX];
    static unsigned char *chunk;
    if (!chunk) { /* once a process: what the folder holds is removed after each input */
        snprintf(dir, sizeof dir, "%s/ckpt-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        CHECK(mkdtemp(dir));
        CHECK(pack_path(path, dir, &NAME, NULL) == 0);
        chunk = malloc(CODEC_CHUNK_BYTES);
        CHECK(chunk);
    }
    if (size < 4 || load_u32(data) > size - 4)
        return 0;
    const size_t frames_size = load_u32(data);
    (void)mkdir(dir, 0700);
    write_pack(path, data + 4, frames_size, data + 4 + frames_size, size - 4 - frames_size);

    pack_set *set = NULL;
    frame_reader *reader = NULL;
    pack *p = NULL;
    CHECK(pack_set_new(&set, dir, NULL) == 0 && frame_reader_new(&reader, set, NULL) == 0);
    if (pack_set_get(&p, set, &NAME, NULL) == 0)
        read_frames(reader, p, chunk);
    frame_reader_free(reader);
    pack_set_free(set);
    (void)unlink(path);
    (void)rmdir(dir);
    return 0;
}

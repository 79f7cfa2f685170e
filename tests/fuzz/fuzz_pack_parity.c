/* Parity of a pack: what is opened has a layout that its file holds, can be compared with anything, and gives either a
 * pack of its name or an error. Each input is tried as it stands and with the checks of both heads put right. */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz.h"

#include "pack_parity.h"

#include "bytes.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FIXED_SIZE  64u
#define REBUILT_MAX ((uint64_t)1 << 20) /* bytes that one input may write */

static void try_file(const uint8_t *data, size_t size)
{
    pack_parity parity;
    pack_loss loss;
    file_tmp tmp;
    sha256 name = {{0}};
    const int fd = memfd_create("parity", MFD_CLOEXEC), pack_fd = memfd_create("pack", MFD_CLOEXEC);

    CHECK(fd >= 0 && pack_fd >= 0 && write(fd, data, size) == (ssize_t)size);
    CHECK(write(pack_fd, data, size / 2) == (ssize_t)(size / 2));
    if (size >= FIXED_SIZE)
        memcpy(name.bytes, data + 32, sizeof name.bytes);
    if (pack_parity_take(&parity, fd, size, &name, NULL) == 0) {
        const parity_layout *const l = &parity.layout;
        CHECK(l->data_count + l->parity_count <= PARITY_GROUP_MAX && l->data_blocks * l->block_size >= l->size);
        CHECK(8 * (l->data_blocks + l->parity_blocks) <= size);
        CHECK(pack_parity_survey(&loss, &parity, pack_fd, size / 2, NULL) == 0);
        CHECK(loss.lost_data <= l->data_blocks && loss.lost_parity <= l->parity_blocks);
        if (l->size <= REBUILT_MAX && pack_parity_rebuild(&tmp, "/tmp", &parity, &loss, pack_fd, NULL) == 0)
            file_tmp_discard(&tmp);
        pack_loss_clear(&loss);
        pack_parity_close(&parity);
    } else
        CHECK(parity.fd == -1 && !parity.checks);
    close(pack_fd);
}

/* Puts the check of a head right whose counts the file has room for, and repeats it at the end. */
static void heads_put_right(uint8_t *data, size_t size)
{
    parity_layout l = {.size = load_u64(data + 24),
                       .block_size = data[10] < 31 ? 1u << data[10] : 0,
                       .parity_count = load_u32(data + 12),
                       .group_count = load_u32(data + 16)};

    if (parity_layout_complete(&l, NULL))
        return;
    const uint64_t head = FIXED_SIZE + 8 * (l.data_blocks + l.parity_blocks + 1);
    if (head > size)
        return;
    store_u64(data + head - 8, xxh64_of(data, (size_t)head - 8));
    if (2 * head + 8 <= size)
        memcpy(data + size - 8 - head, data, (size_t)head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_file(data, size);
    if (size < FIXED_SIZE)
        return 0;
    uint8_t *const copy = malloc(size);
    CHECK(copy);
    memcpy(copy, data, size);
    heads_put_right(copy, size);
    try_file(copy, size);
    free(copy);
    return 0;
}

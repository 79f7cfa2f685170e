/* Zip writer: archives of stored members, written as a stream but for the CRC of each, which is put in when its bytes
 * are known. Zip64 where sizes or counts need it. The same members give the same bytes, whatever the clock. */
#ifndef CKPT_ZIP_WRITER_H
#define CKPT_ZIP_WRITER_H

#include "file.h"

#define ZIP_WRITER_NAME_MAX    8192u /* bytes of a member's name */
#define ZIP_WRITER_MEMBERS_MAX (1u << 21)

typedef struct zip_writer_member zip_writer_member;
typedef struct zip_writer {
    file_tmp *out; /* borrowed; only the archive goes there */
    zip_writer_member *members;
    size_t count, capacity;
    unsigned char *buffer; /* what goes to the end of `out` next: small members make no call each */
    size_t used;
} zip_writer;

/* Begins a member of exactly `size` bytes, which begin at a multiple of `alignment` (1: anywhere) in the file. */
int zip_writer_begin(zip_writer *z, const char *name, uint64_t size, unsigned alignment, ckpt_error *err);
int zip_writer_data(zip_writer *z, const void *data, size_t size, ckpt_error *err);
/* Ends a member whose bytes are all there. */
int zip_writer_end(zip_writer *z, ckpt_error *err);
/* Writes the directory. */
int zip_writer_finish(zip_writer *z, ckpt_error *err);
void zip_writer_clear(zip_writer *z); /* a zeroed one is fine */

#endif

/* Members of a zip archive that are tensor data: they lie in the file as they are, so they can be used in place. */
#ifndef CKPT_ZIP_MEMBER_H
#define CKPT_ZIP_MEMBER_H

#include "tensor_file.h"

#include "zipdir.h"

/* Does the file begin as a zip archive does? */
bool zip_member_probe(const unsigned char *head, size_t head_size, uint64_t size);

/* Reads the directory; tells `file` when the archive is cut off. */
int zip_member_directory(zip_dir *out, tensor_file *file, const byte_source *source, ckpt_error *err);

/* Where the bytes of the member begin; they are entry->size. CKPT_EFORMAT when they are encrypted or compressed. */
int zip_member_locate(uint64_t *offset, const zip_entry *entry, const byte_source *source, ckpt_error *err);

/* Adds a check for each stored member that has a CRC; 0 is none, as some programs do not compute it. */
int zip_member_checks(tensor_file *file, const zip_dir *dir, const byte_source *source, ckpt_error *err);

/* What a compressed member stands for, malloc'ed; *data is entry->size bytes. CKPT_EFORMAT when it is encrypted, packed
 * by another method than deflate, damaged, or larger than ZIP_MEMBER_UNPACKED_MAX. */
#define ZIP_MEMBER_UNPACKED_MAX (UINT64_C(1) << 30)
int zip_member_unpack(unsigned char **data, const zip_entry *entry, const byte_source *source, ckpt_error *err);

#endif

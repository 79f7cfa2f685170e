/* Zip directory: what entries a zip archive has and where their bytes lie, read without trusting the archive.
 *
 *   archive := (local header, name, extra, data, descriptor?)*  directory  [zip64 end, zip64 locator]  end, comment
 *
 * Only the end and the directory are read; nothing is unpacked. The reader is strict: an archive that two readers could
 * understand differently is refused with CKPT_EFORMAT and one line why. Format: PKWARE APPNOTE 6.3.
 *
 * What is checked: one end record, whose comment reaches to the end of the file; Zip64 records that say the same as the
 * plain ones; a directory that ends where the end records begin and holds exactly as many entries as they say; entries
 * that lie before the directory and do not overlap; local headers that agree with the directory. */
#ifndef BASE_ZIPDIR_H
#define BASE_ZIPDIR_H

#include <ckpt/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZIP_ENTRIES_MAX        (1u << 20)
#define ZIP_DIRECTORY_SIZE_MAX (64u << 20) /* bytes; also bounds the memory for names */

#define ZIP_METHOD_STORED  0
#define ZIP_METHOD_DEFLATE 8

#define ZIP_FLAG_ENCRYPTED  0x0001u
#define ZIP_FLAG_DESCRIPTOR 0x0008u /* sizes and CRC stand behind the data, and may be 0 in the local header */
#define ZIP_FLAG_UTF8       0x0800u

/* The bytes of an archive. `read` gives exactly `size` bytes at `offset`, which lie inside [0, size). */
typedef struct zip_source {
    uint64_t size;
    int (*read)(void *payload, void *dst, uint64_t offset, size_t size, ckpt_error *err);
    void *payload;
    const char *path; /* for messages */
} zip_source;

/* What the end records say, checked against each other and nothing else. Offsets as they are written: in a split
 * archive they count from the start of a volume. */
typedef struct zip_end {
    uint32_t disk, directory_disk, disk_count; /* 0, 0, 1 in an archive of one file */
    uint64_t entries_here, entries;
    uint64_t directory_size, directory_offset;
    uint64_t position; /* where the first end record begins in this file */
    uint64_t shift;    /* Zip64: how far the end record lies behind its written place, as after bytes put in front */
    bool zip64;
    uint16_t comment_size;
    bool missing; /* after CKPT_EFORMAT: the file has no end record at all, as one that was cut off */
} zip_end;

/* Finds and reads the end records of the file, which may be the last volume of a split archive. */
int zip_end_read(zip_end *out, const zip_source *source, ckpt_error *err);

typedef struct zip_entry {
    const char *name; /* raw bytes, a 0 byte behind; holds no 0 byte itself */
    uint16_t name_size;
    uint16_t flags;  /* ZIP_FLAG_ */
    uint16_t method; /* ZIP_METHOD_ or another */
    uint16_t made_by;
    uint32_t dos_time; /* date in the high half */
    uint32_t attributes;
    uint32_t crc32;       /* 0 in some PyTorch files: not computed */
    uint64_t size_packed; /* of the data in the archive */
    uint64_t size;        /* unpacked; equal to size_packed when stored and not encrypted */
    uint64_t header;      /* where its local header begins in the file */
    uint64_t limit;       /* where its data must have ended: the next local header, or the directory */
} zip_entry;

typedef struct zip_dir {
    zip_end end;
    zip_entry *entries; /* in the order of the directory */
    size_t count;
    uint64_t lead_size; /* bytes in front of the first local header */
    char *bytes;        /* private: the directory, which holds the names */
} zip_dir;

/* Reads the directory of an archive of one file. Bytes in front of the first local header (a self-extracting program, a
 * marker) are refused unless allow_lead; offsets then count from the start of the file or of the first local header, as
 * the writer had it. CKPT_EFORMAT also for one volume of a split archive; the message says which. */
int zip_dir_read(zip_dir *out, const zip_source *source, bool allow_lead, ckpt_error *err);
void zip_dir_clear(zip_dir *dir); /* a zeroed one is fine */

/* The entry of that name, or NULL; *count (may be NULL) says how many entries have it. */
const zip_entry *zip_dir_find(size_t *count, const zip_dir *dir, const char *name);

/* Reads the local header of an entry and gives where its data begin. CKPT_EFORMAT when the header and the directory
 * disagree in name, method, encryption, sizes or CRC (sizes and CRC that a descriptor gives later, and a CRC of 0, are
 * no disagreement), or when the data do not end before entry->limit. The extra fields may differ: PyTorch aligns data
 * with them. */
int zip_entry_locate(uint64_t *data_offset, const zip_entry *entry, const zip_source *source, ckpt_error *err);

#endif

/* Tensor files: what the formats of other programs hold, found without trusting or executing a byte of them.
 *
 * A parser reads only names, types and places; it never copies tensor data. What it cannot understand it refuses with
 * CKPT_EFORMAT and one line why; the file is then saved as opaque bytes, so a parser may be strict.
 *
 *   file  = bytes between | tensor | bytes between | tensor ...      every byte is in exactly one extent
 *
 * A new format is one file_NAME.c and one row in FORMATS of tensor_file.c. */
#ifndef CKPT_TENSOR_FILE_H
#define CKPT_TENSOR_FILE_H

#include <ckpt/store.h>

/* Limits for everything that comes from outside. */
#define TENSOR_FILE_TENSORS_MAX (1u << 20)
#define TENSOR_FILE_NAME_MAX    4096         /* bytes of a tensor's name */
#define TENSOR_FILE_HEADER_MAX  (100u << 20) /* JSON header, pickle: as the safetensors reference */
/* Tensors may share bytes, as tied weights do; together they show the file so many times, and so many bytes more. */
#define TENSOR_FILE_TIMES_MAX  1024u
#define TENSOR_FILE_BYTES_FREE (UINT64_C(1) << 30)

/* Random access to the bytes of a file on disk or in memory. */
typedef struct byte_source {
    uint64_t size;
    int (*read)(const struct byte_source *source, void *dst, uint64_t offset, size_t size, ckpt_error *err);
    /* Where these bytes stand in memory, for as long as the source lives; NULL: nowhere in one piece. */
    const void *(*view)(const struct byte_source *source, uint64_t offset, size_t size);
    /* Reads all of the file of that name in the same folder, malloc'ed; NULL where there is no folder. */
    int (*beside)(const struct byte_source *source, char **data, size_t *size, const char *name, size_t size_max,
                  ckpt_error *err);
    const char *path;                /* for messages, and for `beside` */
    int fd;                          /* for byte_source_fd */
    const void *data;                /* for byte_source_memory */
    const struct byte_source *whole; /* for byte_source_part */
    uint64_t first;
} byte_source;

void byte_source_fd(byte_source *source, int fd, uint64_t size, const char *path);
void byte_source_memory(byte_source *source, const void *data, uint64_t size, const char *path);
/* The bytes [offset, offset + size) of another source, which has to outlive it. */
void byte_source_part(byte_source *source, const byte_source *whole, uint64_t offset, uint64_t size);

/* A named view of the file's bytes: element (i, j, ...) stands at offset + (i * stride[0] + j * stride[1] + ...) *
 * size. */
typedef struct tensor_view {
    char *name; /* model.layer1.0.conv1.weight */
    ckpt_dtype dtype;
    unsigned rank;
    bool contiguous;
    uint64_t shape[CKPT_RANK_MAX];
    int64_t stride[CKPT_RANK_MAX]; /* elements, never negative */
    uint64_t offset;               /* of element 0 in the file */
    uint64_t span_bytes;           /* from element 0 to the end of the last one; inside the file; 0 for no elements */
} tensor_view;

/* A run of bytes whose CRC-32 the file itself tells. */
typedef struct tensor_check {
    char *name;
    uint64_t offset, size;
    uint32_t crc32;
} tensor_check;

typedef struct tensor_file {
    const char *format; /* "torch", ... static */
    size_t count;
    tensor_view *tensors; /* in the order of the file's own listing */
    uint64_t bytes;       /* of all tensors together */
    size_t value_count;
    ckpt_value *values; /* strings beside the tensors (safetensors __metadata__); owned */
    size_t check_count;
    tensor_check *checks; /* disjoint, by offset; for whoever reads all bytes anyway */
    bool cut_off;         /* refused because it ends before what its beginning promises */
} tensor_file;

typedef struct tensor_format {
    const char *name;
    /* Might the file be of this format? Judged by the first bytes (head_size <= 64) and the size, never by the suffix.
     */
    bool (*probe)(const unsigned char *head, size_t head_size, uint64_t size);
    int (*parse)(tensor_file *out, const byte_source *source, ckpt_error *err);
} tensor_format;

extern const tensor_format FORMAT_SAFETENSORS, FORMAT_DISTCP, FORMAT_TORCH, FORMAT_TORCH_LEGACY, FORMAT_NPY, FORMAT_NPZ,
    FORMAT_KERAS, FORMAT_HDF5, FORMAT_LFS;

/* Parses the file by the formats whose probe fits, in turn: a parser that finds another kind of file (two formats are
 * zip archives) says CKPT_ENOTFOUND and the next one is asked. *out is an empty list of format "opaque" where none
 * fits. When a parser refuses, *out is the same empty list and `why` says in one line why ("" otherwise) and
 * `cut_off` whether its writer seems not to have come to the end. Errors: only
 * CKPT_EIO, CKPT_ENOMEM, CKPT_EINTERRUPTED. */
int tensor_file_read(tensor_file *out, char why[256], const byte_source *source, ckpt_error *err);
/* `why` without the path of the source, if that stands in front. */
const char *tensor_file_refusal(const char *why, const char *path);
void tensor_file_clear(tensor_file *file);

/* Appends a view, taking `name` over (freed on error too). CKPT_EFORMAT when the name is not valid, the span does not
 * lie inside the file, or the tensor has more bytes than the file. */
int tensor_file_add(tensor_file *file, tensor_view *view, uint64_t file_size, ckpt_error *err);
/* Appends the tensors that a format finds in a part of the file: their names have `prefix` and a dot in front, and one
 * that stands alone in the part is called `prefix`; an empty prefix adds nothing. What the format refuses stays bytes.
 */
int tensor_file_add_part(tensor_file *file, const tensor_format *format, const byte_source *source, uint64_t offset,
                         uint64_t size, const char *prefix, ckpt_error *err);
int tensor_file_add_value(tensor_file *file, const char *key, const char *value, ckpt_error *err);
/* Appends a check; they are sorted by whoever adds the last one. */
int tensor_file_add_check(tensor_file *file, const char *name, uint64_t offset, uint64_t size, uint32_t crc32,
                          ckpt_error *err);
/* Fills stride row-major, contiguous and span_bytes from shape and dtype; CKPT_EFORMAT on overflow. */
int tensor_view_row_major(tensor_view *view, ckpt_error *err);
/* Fills contiguous and span_bytes from shape, stride and dtype; CKPT_EFORMAT on overflow or a negative stride. */
int tensor_view_measure(tensor_view *view, ckpt_error *err);
/* Elements times the size of one, whatever the strides; false when that does not fit. */
bool tensor_view_bytes(uint64_t *bytes, const tensor_view *view);

/* One piece of the file for the codec: disjoint, ascending, together exactly [0, size). */
typedef struct extent {
    uint64_t offset, size;
    ckpt_dtype dtype; /* CKPT_OPAQUE for the bytes between tensors */
    int64_t tensor;   /* index of the largest tensor inside, -1 for the bytes between */
} extent;

/* Cuts the file into extents: overlapping views (tied weights, slices of one storage) become one extent. */
int extents_make(extent **out, size_t *count, const tensor_file *file, uint64_t file_size, ckpt_error *err);

/* The name of a tensor that stands alone in its file (a saved tensor, a .npy). */
#define TENSOR_NAME_ALONE "tensor"

/* May this be a name: UTF-8 without control characters, 1 to TENSOR_FILE_NAME_MAX bytes? */
bool tensor_name_valid(const char *name);

/* The name under which a tensor is paired across files and formats: without the container words in front that savers
 * put there (model. state_dict. model_state_dict. module. net. _orig_mod. ...). Returns a pointer into `name`. */
const char *tensor_name_canonical(const char *name);

/* What a tensor is to the optimizer, for grouping small tensors and for stats: "weights", or the component of an
 * optimizer's state that says which (momentum_buffer, exp_avg, exp_avg_sq, step ...), cut to fit. */
#define TENSOR_CLASS_SIZE 64
void tensor_class_of(char out[TENSOR_CLASS_SIZE], const char *name);

/* Writes the header of a safetensors file (8-byte length, JSON padded with blanks to a multiple of 8) for tensors laid
 * out one after the other in the given order. *header is malloc'ed. CKPT_EUSAGE names the tensor or value that such a
 * file cannot hold: its name, type or shape, one without data, one of two with the same name. */
int safetensors_header(char **header, size_t *header_size, const ckpt_tensor *tensors, size_t count,
                       const ckpt_value *values, size_t value_count, ckpt_error *err);
/* Bytes of a tensor that safetensors_header() took, so that they fit. */
uint64_t tensor_bytes(const ckpt_tensor *tensor);

#endif

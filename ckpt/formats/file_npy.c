#include "npy.h"

#include "bytes.h"
#include "checked.h"
#include "fail.h"

#include <stdlib.h>
#include <string.h>

#define PREAMBLE_MAX   12 /* magic, version, the longer length */
#define HEADER_MAX     65535
#define DESCR_SIZE_MAX 8

static const struct {
    const char *descr; /* without the byte order */
    ckpt_dtype dtype;
} DTYPES[] = {
    {"b1", CKPT_BOOL}, {"u1", CKPT_U8},  {"i1", CKPT_I8},  {"u2", CKPT_U16},   {"i2", CKPT_I16},
    {"u4", CKPT_U32},  {"i4", CKPT_I32}, {"u8", CKPT_U64}, {"i8", CKPT_I64},   {"f2", CKPT_F16},
    {"f4", CKPT_F32},  {"f8", CKPT_F64}, {"c8", CKPT_C64}, {"c16", CKPT_C128},
};

#define DTYPE_COUNT (sizeof DTYPES / sizeof DTYPES[0])

/* ---- The header's literal --------------------------------------------------------------------------------------- */

typedef struct literal {
    const char *text; /* ends with a 0 byte, which no token matches */
    size_t at;
} literal;

static void skip_blanks(literal *l)
{
    while (l->text[l->at] == ' ' || l->text[l->at] == '\n')
        l->at++;
}

/* Takes `token` if it comes next. */
static bool take(literal *l, const char *token)
{
    const size_t size = strlen(token);
    skip_blanks(l);
    if (strncmp(l->text + l->at, token, size) != 0)
        return false;
    l->at += size;
    return true;
}

/* A text in quotes, without escapes, of 1 to size - 1 bytes. */
static bool take_text(char *out, size_t size, literal *l)
{
    skip_blanks(l);
    const char quote = l->text[l->at];
    if (quote != '\'' && quote != '"')
        return false;
    const char *start = l->text + l->at + 1;
    const char *end = strchr(start, quote);
    if (!end || end == start || (size_t)(end - start) >= size || memchr(start, '\\', (size_t)(end - start)))
        return false;
    memcpy(out, start, (size_t)(end - start));
    out[end - start] = 0;
    l->at = (size_t)(end + 1 - l->text);
    return true;
}

/* 12 or, from Python 2, 12L */
static bool take_count(uint64_t *out, literal *l)
{
    skip_blanks(l);
    const size_t digits = strspn(l->text + l->at, "0123456789");
    *out = 0;
    for (size_t i = 0; i < digits; i++)
        if (!checked_mul(out, *out, 10) || !checked_add(out, *out, (uint64_t)(l->text[l->at + i] - '0')))
            return false;
    l->at += digits;
    take(l, "L");
    return digits > 0;
}

/* (), (3,), (3, 4) */
static bool take_shape(tensor_view *view, literal *l)
{
    view->rank = 0;
    if (!take(l, "("))
        return false;
    while (!take(l, ")")) {
        if (view->rank == CKPT_RANK_MAX || !take_count(&view->shape[view->rank], l))
            return false;
        view->rank++;
        if (!take(l, ",") && l->text[l->at] != ')')
            return false;
    }
    return true;
}

static int dtype_find(ckpt_dtype *out, const char *descr, ckpt_error *err)
{
    for (size_t i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(DTYPES[i].descr, descr + 1) == 0) {
            if (descr[0] == '>' && ckpt_dtype_size(DTYPES[i].dtype) > 1)
                break;
            *out = DTYPES[i].dtype;
            return strchr("<>|=", descr[0]) ? 0 : error_set(err, CKPT_EFORMAT, "npy: unknown byte order");
        }
    return error_set(err, CKPT_EFORMAT, "npy: elements of type '%s' are not plain little-endian numbers", descr);
}

/* The dictionary: each of the three keys once, in any order. */
static int header_read(tensor_view *view, bool *fortran, const char *text, ckpt_error *err)
{
    enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
    int rc = 0;
    literal l = {text, 0};
    unsigned seen = 0;
    char key[16], descr[DESCR_SIZE_MAX];

    FAIL_IF(!take(&l, "{"), err, CKPT_EFORMAT, "npy: header is not a dictionary");
    while (!take(&l, "}")) {
        FAIL_IF(!take_text(key, sizeof key, &l) || !take(&l, ":"), err, CKPT_EFORMAT, "npy: header has no key");
        const unsigned known = strcmp(key, "descr") == 0           ? DESCR
                               : strcmp(key, "fortran_order") == 0 ? ORDER
                               : strcmp(key, "shape") == 0         ? SHAPE
                                                                   : 0;
        FAIL_IF(known == 0 || (seen & known), err, CKPT_EFORMAT, "npy: header has a wrong key '%s'", key);
        seen |= known;
        if (known == DESCR) {
            FAIL_IF(!take_text(descr, sizeof descr, &l), err, CKPT_EFORMAT, "npy: elements are not plain numbers");
            TRY(dtype_find(&view->dtype, descr, err));
        } else if (known == ORDER) {
            *fortran = take(&l, "True");
            FAIL_IF(!*fortran && !take(&l, "False"), err, CKPT_EFORMAT, "npy: header has no order");
        } else {
            FAIL_IF(!take_shape(view, &l), err, CKPT_EFORMAT, "npy: header has no shape");
        }
        FAIL_IF(!take(&l, ",") && l.text[l.at] != '}', err, CKPT_EFORMAT, "npy: header has no comma");
    }
    FAIL_IF(seen != (DESCR | ORDER | SHAPE), err, CKPT_EFORMAT, "npy: header lacks a key");
    skip_blanks(&l);
    FAIL_IF(l.text[l.at] != 0, err, CKPT_EFORMAT, "npy: header goes on behind its end");
out:
    return rc;
}

/* ---- The array -------------------------------------------------------------------------------------------------- */

/* Strides of Fortran's order: those of the reversed shape in C's order, reversed. */
static int column_major(tensor_view *view, ckpt_error *err)
{
    int rc = 0;
    tensor_view reversed = {.dtype = view->dtype, .rank = view->rank};
    for (unsigned i = 0; i < view->rank; i++)
        reversed.shape[i] = view->shape[view->rank - 1 - i];
    TRY(tensor_view_row_major(&reversed, err));
    for (unsigned i = 0; i < view->rank; i++)
        view->stride[i] = reversed.stride[view->rank - 1 - i];
    TRY(tensor_view_measure(view, err));
out:
    return rc;
}

int npy_view(tensor_view *view, const byte_source *source, uint64_t offset, uint64_t size, ckpt_error *err)
{
    int rc = 0;
    unsigned char start[PREAMBLE_MAX];
    char *text = NULL;
    bool fortran = false;

    FAIL_IF(size < sizeof start, err, CKPT_EFORMAT, "npy: ends inside of its header");
    TRY(source->read(source, start, offset, sizeof start, err));
    const unsigned major = start[NPY_MAGIC_SIZE];
    FAIL_IF(memcmp(start, NPY_MAGIC, NPY_MAGIC_SIZE) != 0, err, CKPT_EFORMAT, "npy: no magic number");
    FAIL_IF(major < 1 || major > 3, err, CKPT_EFORMAT, "npy: version %u is unknown", major);
    const size_t preamble = major == 1 ? PREAMBLE_MAX - 2 : PREAMBLE_MAX;
    const uint64_t header_size = major == 1 ? load_u16(start + 8) : load_u32(start + 8);
    FAIL_IF(header_size > HEADER_MAX || header_size > size - preamble, err, CKPT_EFORMAT,
            "npy: header of %llu bytes is too long", (unsigned long long)header_size);

    text = calloc(1, (size_t)header_size + 1);
    FAIL_IF_NULL(text, err);
    TRY(source->read(source, text, offset + preamble, (size_t)header_size, err));
    FAIL_IF(strlen(text) != header_size, err, CKPT_EFORMAT, "npy: header holds a 0 byte");
    TRY(header_read(view, &fortran, text, err));
    TRY(fortran ? column_major(view, err) : tensor_view_row_major(view, err));
    view->offset = offset + preamble + header_size;
    FAIL_IF(view->span_bytes > size - preamble - header_size, err, CKPT_EFORMAT, "npy: ends inside of its data");
out:
    free(text);
    return rc;
}

static bool npy_probe(const unsigned char *head, size_t head_size, uint64_t size)
{
    (void)size;
    return head_size >= NPY_MAGIC_SIZE && memcmp(head, NPY_MAGIC, NPY_MAGIC_SIZE) == 0;
}

static int npy_parse(tensor_file *out, const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    tensor_view view = {0};

    rc = npy_view(&view, source, 0, source->size, err);
    out->cut_off = rc == CKPT_EFORMAT && view.span_bytes > source->size - view.offset;
    TRY(rc);
    view.name = strdup(TENSOR_NAME_ALONE);
    FAIL_IF_NULL(view.name, err);
    TRY(tensor_file_add(out, &view, source->size, err));
out:
    free(view.name);
    return rc;
}

const tensor_format FORMAT_NPY = {"npy", npy_probe, npy_parse};

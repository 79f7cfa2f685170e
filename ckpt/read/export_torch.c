/* PyTorch's format, as torch.save writes it: one dict of tensors by name, each on a storage of its own.
 *
 *   archive/data.pkl   archive/byteorder   archive/data/0 ...   archive/version
 *
 * The pickle is of protocol 2 and has nothing that torch.load(weights_only=True) refuses. */
#include "export_internal.h"

#include "array.h"
#include "bytes.h"
#include "fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER         "archive/"
#define KEY_SIZE       24
#define PICKLE_ROW_MAX 1024 /* bytes of one tensor's part but for its name */

/* Opcodes of pickle protocol 2. */
#define OP_BINUNICODE 'X'
#define OP_GLOBAL     'c'
#define OP_LONG1      '\x8a'

/* How PyTorch writes a type: a storage of its own, or (since 2.1) untyped bytes and the type beside them. */
static const struct {
    const char *storage, *type; /* one of them */
} TYPES[] = {
    [CKPT_BOOL] = {"BoolStorage", NULL},
    [CKPT_U8] = {"ByteStorage", NULL},
    [CKPT_I8] = {"CharStorage", NULL},
    [CKPT_U16] = {NULL, "uint16"},
    [CKPT_I16] = {"ShortStorage", NULL},
    [CKPT_U32] = {NULL, "uint32"},
    [CKPT_I32] = {"IntStorage", NULL},
    [CKPT_U64] = {NULL, "uint64"},
    [CKPT_I64] = {"LongStorage", NULL},
    [CKPT_F16] = {"HalfStorage", NULL},
    [CKPT_BF16] = {"BFloat16Storage", NULL},
    [CKPT_F32] = {"FloatStorage", NULL},
    [CKPT_F64] = {"DoubleStorage", NULL},
    [CKPT_C64] = {"ComplexFloatStorage", NULL},
    [CKPT_C128] = {"ComplexDoubleStorage", NULL},
    [CKPT_F8_E4M3] = {NULL, "float8_e4m3fn"},
    [CKPT_F8_E5M2] = {NULL, "float8_e5m2"},
};
#define TYPE_COUNT (sizeof TYPES / sizeof TYPES[0])

static bool type_exists(ckpt_dtype dtype)
{
    return (size_t)dtype < TYPE_COUNT && (TYPES[dtype].storage || TYPES[dtype].type);
}

/* ---- The pickle ------------------------------------------------------------------------------------------------- */

typedef struct pickle_text {
    char *bytes;
    size_t size, capacity;
} pickle_text;

/* Room for `size` more bytes. */
static int pickle_room(pickle_text *p, size_t size, ckpt_error *err)
{
    char *const grown = array_room(p->bytes, &p->capacity, p->size + size, 1);

    if (!grown)
        return error_memory(err);
    p->bytes = grown;
    return 0;
}

/* The rest write into room that is there. */
static void put(pickle_text *p, const char *bytes, size_t size)
{
    memcpy(p->bytes + p->size, bytes, size);
    p->size += size;
}

#define PUT_LITERAL(p, literal) put((p), (literal), sizeof(literal) - 1)

static void put_text(pickle_text *p, const char *text)
{
    const size_t size = strlen(text);
    char head[5] = {OP_BINUNICODE};

    store_u32(head + 1, (uint32_t)size);
    put(p, head, sizeof head);
    put(p, text, size);
}

static void put_global(pickle_text *p, const char *module, const char *name)
{
    const char op = OP_GLOBAL;

    put(p, &op, 1);
    put(p, module, strlen(module));
    PUT_LITERAL(p, "\n");
    put(p, name, strlen(name));
    PUT_LITERAL(p, "\n");
}

/* A number below 2^63, as eight bytes of two's complement. */
static void put_number(pickle_text *p, uint64_t number)
{
    char op[10] = {OP_LONG1, 8};

    store_u64(op + 2, number);
    put(p, op, sizeof op);
}

/* ("storage", TYPE, "0", "cpu", count), an id for which PyTorch has the bytes. */
static void put_storage(pickle_text *p, const export_row *row, size_t number)
{
    char key[KEY_SIZE];

    snprintf(key, sizeof key, "%zu", number);
    PUT_LITERAL(p, "(");
    put_text(p, "storage");
    if (TYPES[row->dtype].storage)
        put_global(p, "torch", TYPES[row->dtype].storage);
    else
        put_global(p, "torch.storage", "UntypedStorage");
    put_text(p, key);
    put_text(p, "cpu");
    put_number(p, TYPES[row->dtype].storage ? row->elements : export_bytes(row));
    PUT_LITERAL(p, "tQ");
}

/* _rebuild_tensor_v2(storage, 0, shape, stride, False, OrderedDict()), or v3 with the type behind. */
static void put_tensor(pickle_text *p, const export_row *row, const ckpt_tensor_info *info, size_t number)
{
    uint64_t stride[CKPT_RANK_MAX], step = 1;

    for (unsigned d = info->rank; d-- > 0;) {
        stride[d] = step;
        step *= info->shape[d] ? info->shape[d] : 1;
    }
    put_global(p, "torch._utils", TYPES[row->dtype].storage ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    PUT_LITERAL(p, "(");
    put_storage(p, row, number);
    put_number(p, 0);
    PUT_LITERAL(p, "(");
    for (unsigned d = 0; d < info->rank; d++)
        put_number(p, info->shape[d]);
    PUT_LITERAL(p, "t(");
    for (unsigned d = 0; d < info->rank; d++)
        put_number(p, stride[d]);
    PUT_LITERAL(p, "t\x89");
    put_global(p, "collections", "OrderedDict");
    PUT_LITERAL(p, ")R");
    if (TYPES[row->dtype].type)
        put_global(p, "torch", TYPES[row->dtype].type);
    PUT_LITERAL(p, "tR");
}

static int pickle_make(pickle_text *p, const exporter *e, ckpt_error *err)
{
    int rc = 0;

    TRY(pickle_room(p, PICKLE_ROW_MAX, err));
    PUT_LITERAL(p, "\x80\2}(");
    for (size_t i = 0; i < e->count; i++) {
        const export_row *const row = &e->rows[i];
        TRY(pickle_room(p, strlen(row->name) + PICKLE_ROW_MAX, err));
        put_text(p, row->name);
        put_tensor(p, row, export_info(e, row), i);
    }
    PUT_LITERAL(p, "u.");
out:
    return rc;
}

/* ---- The archive ------------------------------------------------------------------------------------------------ */

static int member_write(zip_writer *z, const char *name, const void *data, size_t size, ckpt_error *err)
{
    int rc = 0;

    TRY(zip_writer_begin(z, name, size, EXPORT_ALIGNMENT, err));
    TRY(zip_writer_data(z, data, size, err));
    TRY(zip_writer_end(z, err));
out:
    return rc;
}

int export_torch(exporter *e, ckpt_error *err)
{
    int rc = 0;
    zip_writer zip = {.out = &e->tmp};
    pickle_text pickle = {0};
    char member[sizeof FOLDER "data/" + KEY_SIZE];

    for (size_t i = 0; i < e->count; i++)
        if (!type_exists(e->rows[i].dtype))
            TRY(export_type_missing(&e->rows[i], "PyTorch", err));
    TRY(pickle_make(&pickle, e, err));
    TRY(member_write(&zip, FOLDER "data.pkl", pickle.bytes, pickle.size, err));
    TRY(member_write(&zip, FOLDER "byteorder", "little", strlen("little"), err));
    for (size_t i = 0; i < e->count; i++) {
        snprintf(member, sizeof member, FOLDER "data/%zu", i);
        TRY(export_member(&zip, e, &e->rows[i], member, NULL, 0, err));
    }
    TRY(member_write(&zip, FOLDER "version", "3\n", strlen("3\n"), err));
    TRY(zip_writer_finish(&zip, err));
out:
    free(pickle.bytes);
    zip_writer_clear(&zip);
    return rc;
}

#include "torch_tensor.h"

#include "checked.h"
#include "fail.h"

#include <string.h>

#define WRAPPERS_MAX 4 /* a parameter of a subclass of a tensor is two deep */

/* The names that matter. Nothing else in a pickle has a meaning here, and these are only compared, never looked up. */
typedef struct torch_call {
    const char *module, *name;
    enum { CALL_REBUILD, CALL_CODES, CALL_WRAP, CALL_DEFER } kind;
    unsigned dtype_argument;    /* REBUILD: 0 when the storage has the dtype */
    unsigned metadata_argument; /* REBUILD: 0 for none */
} torch_call;

static const torch_call CALLS[] = {
    {"torch._utils", "_rebuild_tensor", CALL_REBUILD, 0, 0},    /* storage, offset, size, stride */
    {"torch._utils", "_rebuild_tensor_v2", CALL_REBUILD, 0, 6}, /* ..., requires_grad, hooks[, metadata] */
    {"torch._utils", "_rebuild_tensor_v3", CALL_REBUILD, 6, 7}, /* ..., requires_grad, hooks, dtype[, metadata] */
    {"torch._utils", "_rebuild_qtensor", CALL_CODES, 0, 0},     /* ..., quantizer, requires_grad, hooks */
    {"torch._utils", "_rebuild_parameter", CALL_WRAP, 0, 0},    /* tensor, requires_grad, hooks */
    {"torch._utils", "_rebuild_parameter_with_state", CALL_WRAP, 0, 0},
    {"torch._tensor", "_rebuild_from_type_v2", CALL_DEFER, 0, 0}, /* one of these, class, its arguments, state */
};

/* Classes of storages and objects of type torch.dtype; both give the type of the elements. */
static const struct {
    const char *storage, *name, *alias;
    ckpt_dtype dtype;
} DTYPES[] = {
    {"BoolStorage", "bool", "bool", CKPT_BOOL},
    {"ByteStorage", "uint8", "uint8", CKPT_U8},
    {"UntypedStorage", "uint8", "uint8", CKPT_U8},
    {"CharStorage", "int8", "int8", CKPT_I8},
    {"UInt16Storage", "uint16", "uint16", CKPT_U16},
    {"ShortStorage", "int16", "short", CKPT_I16},
    {"UInt32Storage", "uint32", "uint32", CKPT_U32},
    {"IntStorage", "int32", "int", CKPT_I32},
    {"UInt64Storage", "uint64", "uint64", CKPT_U64},
    {"LongStorage", "int64", "long", CKPT_I64},
    {"HalfStorage", "float16", "half", CKPT_F16},
    {"BFloat16Storage", "bfloat16", "bfloat16", CKPT_BF16},
    {"FloatStorage", "float32", "float", CKPT_F32},
    {"DoubleStorage", "float64", "double", CKPT_F64},
    {"ComplexFloatStorage", "complex64", "cfloat", CKPT_C64},
    {"ComplexDoubleStorage", "complex128", "cdouble", CKPT_C128},
    {"Float8_e4m3fnStorage", "float8_e4m3fn", "float8_e4m3fn", CKPT_F8_E4M3},
    {"Float8_e5m2Storage", "float8_e5m2", "float8_e5m2", CKPT_F8_E5M2},
};

#define CALL_COUNT  (sizeof CALLS / sizeof CALLS[0])
#define DTYPE_COUNT (sizeof DTYPES / sizeof DTYPES[0])

/* Storages live in torch, in torch.storage and, in old files, in torch.cuda. */
static bool storage_dtype(ckpt_dtype *out, const pickle *g, pickle_ref ref)
{
    static const char *const MODULES[] = {"torch", "torch.storage", "torch.cuda"};
    for (size_t i = 0; i < sizeof MODULES / sizeof MODULES[0]; i++)
        for (size_t j = 0; j < DTYPE_COUNT; j++)
            if (pickle_global_is(g, ref, MODULES[i], DTYPES[j].storage)) {
                *out = DTYPES[j].dtype;
                return true;
            }
    return false;
}

static bool named_dtype(ckpt_dtype *out, const pickle *g, pickle_ref ref)
{
    for (size_t i = 0; i < DTYPE_COUNT; i++)
        if (pickle_global_is(g, ref, "torch", DTYPES[i].name) || pickle_global_is(g, ref, "torch", DTYPES[i].alias)) {
            *out = DTYPES[i].dtype;
            return true;
        }
    return false;
}

/* Storages of quantised numbers. */
static bool quantised_dtype(ckpt_dtype *out, const pickle *g, pickle_ref ref)
{
    static const struct {
        const char *storage;
        ckpt_dtype dtype;
    } QUANTISED[] = {
        {"QInt8Storage", CKPT_I8},    {"QUInt8Storage", CKPT_U8},   {"QInt32Storage", CKPT_I32},
        {"QUInt4x2Storage", CKPT_U8}, {"QUInt2x4Storage", CKPT_U8},
    };
    for (size_t i = 0; i < sizeof QUANTISED / sizeof *QUANTISED; i++)
        if (pickle_global_is(g, ref, "torch", QUANTISED[i].storage)) {
            *out = QUANTISED[i].dtype;
            return true;
        }
    return false;
}

/* (key of the view, first element, elements); None, or nothing, for all of the storage. */
static int storage_view_read(torch_storage *out, const pickle *g, pickle_ref view, ckpt_error *err)
{
    int rc = 0;

    out->view_elements = out->elements;
    if (g->nodes[view].kind != PICKLE_TUPLE)
        goto out;
    FAIL_IF(!pickle_count(&out->view_first, g, pickle_item(g, view, 1)) ||
                !pickle_count(&out->view_elements, g, pickle_item(g, view, 2)) ||
                !checked_range(out->view_first, out->view_elements, out->elements),
            err, CKPT_EFORMAT, "a part of a storage lies outside of it");
out:
    return rc;
}

int torch_storage_read(torch_storage *out, const pickle *g, pickle_ref ref, ckpt_error *err)
{
    int rc = 0;
    const pickle_ref id = g->nodes[ref].arguments;
    uint64_t bytes;

    *out = (torch_storage){.dtype = CKPT_OPAQUE};
    FAIL_IF(g->nodes[ref].kind != PICKLE_PERSISTENT || !pickle_text_is(g, pickle_item(g, id, 0), "storage"), err,
            CKPT_EFORMAT, "a tensor has no storage");
    const pickle_ref class = pickle_item(g, id, 1);
    out->codes = !storage_dtype(&out->dtype, g, class) && quantised_dtype(&out->dtype, g, class);
    out->width = out->dtype == CKPT_OPAQUE ? 0 : ckpt_dtype_size(out->dtype);
    out->key = pickle_item(g, id, 2);
    FAIL_IF(g->nodes[out->key].kind != PICKLE_TEXT, err, CKPT_EFORMAT, "a storage has no key");
    FAIL_IF(!pickle_count(&out->elements, g, pickle_item(g, id, 4)) ||
                !checked_mul(&bytes, out->elements, out->width ? out->width : 1),
            err, CKPT_EFORMAT, "a storage has no size");
    TRY(storage_view_read(out, g, pickle_item(g, id, 5), err));
out:
    return rc;
}

static int dimensions_read(tensor_view *view, const pickle *g, pickle_ref shape, pickle_ref stride, ckpt_error *err)
{
    int rc = 0;
    const pickle_node *const sizes = &g->nodes[shape], *const steps = &g->nodes[stride];

    FAIL_IF(sizes->kind != PICKLE_TUPLE || steps->kind != PICKLE_TUPLE || sizes->count != steps->count, err,
            CKPT_EFORMAT, "a tensor has no shape");
    FAIL_IF(sizes->count > CKPT_RANK_MAX, err, CKPT_EFORMAT, "a tensor has over %d dimensions", CKPT_RANK_MAX);
    view->rank = sizes->count;
    for (unsigned i = 0; i < view->rank; i++) {
        uint64_t step;
        FAIL_IF(!pickle_count(&view->shape[i], g, pickle_item(g, shape, i)), err, CKPT_EFORMAT,
                "a dimension of a tensor is not a count");
        FAIL_IF(!pickle_count(&step, g, pickle_item(g, stride, i)), err, CKPT_EFORMAT,
                "a stride of a tensor is not a count");
        view->stride[i] = (int64_t)step;
    }
out:
    return rc;
}

/* Numbers that are meant to be conjugated or negated when they are read are not those in the file. */
static bool has_metadata(const pickle *g, pickle_ref arguments, unsigned argument)
{
    const pickle_node *const metadata = &g->nodes[argument ? pickle_item(g, arguments, argument) : 0];
    return (metadata->kind == PICKLE_DICT || metadata->kind == PICKLE_OBJECT) && metadata->count > 0;
}

/* storage, offset, size, stride ... */
static int rebuild_read(bool *found, torch_tensor *out, const pickle *g, pickle_ref arguments, const torch_call *call,
                        ckpt_error *err)
{
    int rc = 0;
    torch_storage storage;
    uint64_t first, before, end;

    TRY(torch_storage_read(&storage, g, pickle_item(g, arguments, 0), err));
    out->view.dtype = storage.dtype;
    out->part = call->kind == CALL_CODES ? TORCH_PART_CODES : NULL;
    bool known = storage.width && storage.codes == (call->kind == CALL_CODES) &&
                 !has_metadata(g, arguments, call->metadata_argument);
    if (known && call->dtype_argument)
        known = named_dtype(&out->view.dtype, g, pickle_item(g, arguments, call->dtype_argument));
    if (!known)
        goto out;
    out->key = storage.key;
    out->storage_bytes = storage.elements * storage.width;
    FAIL_IF(!pickle_count(&first, g, pickle_item(g, arguments, 1)), err, CKPT_EFORMAT,
            "the offset of a tensor is not a count");
    TRY(dimensions_read(&out->view, g, pickle_item(g, arguments, 2), pickle_item(g, arguments, 3), err));
    TRY(tensor_view_measure(&out->view, err));
    FAIL_IF(!checked_mul(&before, first, ckpt_dtype_size(out->view.dtype)) ||
                !checked_add(&end, before, out->view.span_bytes) || end > storage.view_elements * storage.width,
            err, CKPT_EFORMAT, "a tensor lies outside of its storage");
    out->storage_offset = storage.view_first * storage.width + before;
    *found = true;
out:
    return rc;
}

int torch_tensor_read(bool *found, torch_tensor *out, const pickle *g, pickle_ref ref, ckpt_error *err)
{
    *found = false;
    *out = (torch_tensor){0};
    if (g->nodes[ref].kind != PICKLE_OBJECT)
        return 0;
    pickle_ref callee = g->nodes[ref].callee, arguments = g->nodes[ref].arguments;
    for (unsigned depth = 0; depth < WRAPPERS_MAX; depth++) {
        size_t i = 0;
        while (i < CALL_COUNT && !pickle_global_is(g, callee, CALLS[i].module, CALLS[i].name))
            i++;
        if (i == CALL_COUNT)
            return 0;
        if (CALLS[i].kind == CALL_REBUILD || CALLS[i].kind == CALL_CODES)
            return rebuild_read(found, out, g, arguments, &CALLS[i], err);
        const pickle_ref inner = pickle_item(g, arguments, 0);
        if (CALLS[i].kind == CALL_WRAP && g->nodes[inner].kind != PICKLE_OBJECT)
            return 0;
        callee = CALLS[i].kind == CALL_WRAP ? g->nodes[inner].callee : inner;
        arguments = CALLS[i].kind == CALL_WRAP ? g->nodes[inner].arguments : pickle_item(g, arguments, 2);
    }
    return 0;
}

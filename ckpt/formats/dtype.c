/* Names and widths of element types. */
#include <ckpt/store.h>

static const struct {
    const char *name;
    size_t size;
} DTYPES[] = {
    [CKPT_OPAQUE] = {"opaque", 1}, [CKPT_BOOL] = {"bool", 1},       [CKPT_U8] = {"u8", 1},
    [CKPT_I8] = {"i8", 1},         [CKPT_U16] = {"u16", 2},         [CKPT_I16] = {"i16", 2},
    [CKPT_U32] = {"u32", 4},       [CKPT_I32] = {"i32", 4},         [CKPT_U64] = {"u64", 8},
    [CKPT_I64] = {"i64", 8},       [CKPT_F16] = {"f16", 2},         [CKPT_BF16] = {"bf16", 2},
    [CKPT_F32] = {"f32", 4},       [CKPT_F64] = {"f64", 8},         [CKPT_C64] = {"c64", 8},
    [CKPT_C128] = {"c128", 16},    [CKPT_F8_E4M3] = {"f8_e4m3", 1}, [CKPT_F8_E5M2] = {"f8_e5m2", 1},
};

#define DTYPE_COUNT (sizeof DTYPES / sizeof DTYPES[0])

const char *ckpt_dtype_name(ckpt_dtype dtype)
{
    return (size_t)dtype < DTYPE_COUNT ? DTYPES[dtype].name : NULL;
}

size_t ckpt_dtype_size(ckpt_dtype dtype)
{
    return (size_t)dtype < DTYPE_COUNT ? DTYPES[dtype].size : 1;
}

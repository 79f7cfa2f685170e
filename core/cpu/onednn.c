#include "onednn_api.h"

#include "team.h"

#include "cpu.h"
#include "fail.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

int onednn_check(dnnl_status_t status, const char *what, ckpt_error *err)
{
    if (status == dnnl_success)
        return 0;
    if (status == dnnl_out_of_memory)
        return error_memory(err);
    return error_set(err, status == dnnl_unimplemented ? CKPT_EMISSING : CKPT_EBUG, "oneDNN: %s: status %d", what,
                     (int)status);
}

/* ---- Instruction sets -------------------------------------------------------------------------------------------- */

static const struct isa_word {
    const char *name;
    dnnl_cpu_isa_t isa;
} ISA_WORDS[] = {
    {"sse41", dnnl_cpu_isa_sse41},
    {"avx", dnnl_cpu_isa_avx},
    {"avx2", dnnl_cpu_isa_avx2},
    {"avx2_vnni", dnnl_cpu_isa_avx2_vnni},
    {"avx512_core", dnnl_cpu_isa_avx512_core},
    {"avx512_core_vnni", dnnl_cpu_isa_avx512_core_vnni},
    {"avx512_core_bf16", dnnl_cpu_isa_avx512_core_bf16},
    {"avx512_core_amx", dnnl_cpu_isa_avx512_core_amx},
#if DNNL_VERSION_MAJOR >= 3
    {"avx2_vnni_2", dnnl_cpu_isa_avx2_vnni_2},
    {"avx512_core_fp16", dnnl_cpu_isa_avx512_core_fp16},
    {"avx512_core_amx_fp16", dnnl_cpu_isa_avx512_core_amx_fp16},
#endif
};
#define ISA_WORD_COUNT (sizeof ISA_WORDS / sizeof ISA_WORDS[0])
#define ISA_EVERY      (~0u)

void onednn_isa(char out[BACKEND_TEXT_SIZE])
{
    const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();

    out[0] = '\0';
    if (isa == DNNL_ISA_UNLIMITED)
        return;                                                /* no x86 */
    snprintf(out, BACKEND_TEXT_SIZE, "isa_%x", (unsigned)isa); /* newer than this list */
    for (size_t i = 0; i < ISA_WORD_COUNT; i++)
        if (ISA_WORDS[i].isa == isa)
            snprintf(out, BACKEND_TEXT_SIZE, "%s", ISA_WORDS[i].name);
}

void onednn_version(char out[BACKEND_TEXT_SIZE])
{
    const dnnl_version_t *const v = dnnl_version();

    snprintf(out, BACKEND_TEXT_SIZE, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
}

/* What CKPT_CPU allows; what the machine lacks oneDNN finds out for itself. */
static unsigned isa_allowed(void)
{
#if defined(__x86_64__)
    if (!cpu_has(CPU_AVX2))
        return dnnl_cpu_isa_sse41;
    if (!cpu_has(CPU_AVX512))
        return dnnl_cpu_isa_avx2;
    if (!cpu_has(CPU_AVX512_BF16))
        return dnnl_cpu_isa_avx512_core_vnni;
#endif
    return ISA_EVERY;
}

static int isa_limit(const char *name, ckpt_error *err)
{
    int rc = 0;
    unsigned limit = isa_allowed(); /* a set is the bits of those that it includes */

    if (name && name[0]) {
        size_t i = 0;
        while (i < ISA_WORD_COUNT && strcmp(ISA_WORDS[i].name, name) != 0)
            i++;
        FAIL_IF(i == ISA_WORD_COUNT, err, CKPT_EMISSING, "instruction set '%s' is not known here", name);
        limit &= (unsigned)ISA_WORDS[i].isa;
    }
    /* Refused once the process has used oneDNN: onednn_isa tells what is in use. */
    if (limit != ISA_EVERY)
        dnnl_set_max_cpu_isa((dnnl_cpu_isa_t)limit);
out:
    return rc;
}

int onednn_new(onednn **out, unsigned threads, const char *isa, ckpt_error *err)
{
    int rc = 0;
    onednn *const o = calloc(1, sizeof *o);

    FAIL_IF_NULL(o, err);
    o->threads = threads;
    TRY(isa_limit(isa, err));
    TRY(onednn_check(dnnl_engine_create(&o->engine, dnnl_cpu, 0), "engine", err));
    TRY(onednn_check(dnnl_stream_create(&o->stream, o->engine, dnnl_stream_default_flags), "stream", err));
    TRY(onednn_check(dnnl_primitive_attr_create(&o->attributes), "attributes", err));
    TRY(onednn_check(dnnl_primitive_attr_set_scratchpad_mode(o->attributes, dnnl_scratchpad_mode_user), "attributes",
                     err));
    *out = o;
out:
    if (rc)
        onednn_free(o);
    return rc;
}

void onednn_free(onednn *o)
{
    if (!o)
        return;
    if (o->attributes)
        dnnl_primitive_attr_destroy(o->attributes);
    if (o->stream)
        dnnl_stream_destroy(o->stream);
    if (o->engine)
        dnnl_engine_destroy(o->engine);
    free(o);
}

int onednn_multiply(onednn *o, const matrix_product *p, ckpt_error *err)
{
    const dnnl_dim_t rows = (dnnl_dim_t)p->rows, columns = (dnnl_dim_t)p->columns, inner = (dnnl_dim_t)p->inner;
    const team_settings before = team_enter(o->threads);
    const dnnl_status_t status =
        dnnl_sgemm(p->a_transposed ? 'T' : 'N', p->b_transposed ? 'T' : 'N', rows, columns, inner, 1, p->a,
                   p->a_transposed ? rows : inner, p->b, p->b_transposed ? inner : columns, 0, p->c, columns);

    team_leave(before);
    return onednn_check(status, "matrix product", err);
}

/* ---- Primitives -------------------------------------------------------------------------------------------------- */

void primitive_clear(primitive *p)
{
    for (int i = 0; i < p->argument_count; i++)
        dnnl_memory_destroy(p->arguments[i].memory);
    if (p->handle)
        dnnl_primitive_destroy(p->handle);
    *p = (primitive){0};
}

int primitive_new(primitive *p, const onednn *o, const_dnnl_primitive_desc_t pd, const int *arguments, int count,
                  ckpt_error *err)
{
    int rc = 0;

    assert(count < PRIMITIVE_ARGUMENTS_MAX);
    TRY(onednn_check(dnnl_primitive_create(&p->handle, pd), "primitive", err));
    for (int i = 0; i <= count; i++) {
        dnnl_exec_arg_t *const a = &p->arguments[i];
        a->arg = i < count ? arguments[i] : DNNL_ARG_SCRATCHPAD;
        TRY(onednn_check(dnnl_memory_create(&a->memory, argument_desc(pd, a->arg), o->engine, DNNL_MEMORY_NONE),
                         "memory", err));
        p->argument_count++;
    }
    p->scratch_bytes = dnnl_memory_desc_get_size(argument_desc(pd, DNNL_ARG_SCRATCHPAD));
out:
    return rc; /* the caller clears */
}

int primitive_run(primitive *p, const onednn *o, const void *const *addresses, void *scratch, ckpt_error *err)
{
    int rc = 0;
    const team_settings before = team_enter(o->threads);

    for (int i = 0; i < p->argument_count; i++) {
        union { /* oneDNN takes pointers to what it only reads without const */
            const void *given;
            void *taken;
        } address = {.given = i + 1 < p->argument_count ? addresses[i] : scratch};
        TRY(onednn_check(dnnl_memory_set_data_handle(p->arguments[i].memory, address.taken), "memory", err));
    }
    TRY(onednn_check(dnnl_primitive_execute(p->handle, o->stream, p->argument_count, p->arguments), "execute", err));
    TRY(onednn_check(dnnl_stream_wait(o->stream), "wait", err));
out:
    team_leave(before);
    return rc;
}

int primitive_new_reorder(primitive *p, const onednn *o, desc_ref to, desc_ref from, ckpt_error *err)
{
    int rc = 0;
    dnnl_primitive_desc_t pd = NULL;
    static const int ARGUMENTS[] = {DNNL_ARG_FROM, DNNL_ARG_TO};

    if (dnnl_memory_desc_equal(to, from))
        return 0;
    TRY(onednn_check(dnnl_reorder_primitive_desc_create(&pd, from, o->engine, to, o->engine, o->attributes), "reorder",
                     err));
    TRY(primitive_new(p, o, pd, ARGUMENTS, 2, err));
out:
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return rc;
}

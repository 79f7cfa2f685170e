#include "backend.h"

#include "fail.h"

#include <string.h>

int backend_new(backend **out, const char *name, const backend_options *options, ckpt_error *err)
{
    if (strcmp(name, "reference") == 0)
        return backend_reference_new(out, err);
    if (strcmp(name, "cpu") == 0)
        return backend_cpu_new(out, options, err);
    error_set(err, CKPT_EUSAGE, "there is no backend `%.64s`", name);
    error_hint(err, "backends: cpu, reference");
    return CKPT_EUSAGE;
}

void backend_free(backend *b)
{
    if (b)
        b->free(b);
}

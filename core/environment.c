#include "environment.h"

#include "cpu.h"

#include <ckpt/train.h>
#include <stdio.h>
#include <string.h>

#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif

/* The loss takes exp and log from the C library, which have other last bits in other versions. */
static void libraries_name(char out[BACKEND_TEXT_SIZE], const backend *b)
{
    const size_t size = strlen(b->library);

    snprintf(out, BACKEND_TEXT_SIZE, "%s", b->library);
#if defined(__GLIBC__)
    snprintf(out + size, BACKEND_TEXT_SIZE - size, "%sglibc %s", size ? ", " : "", gnu_get_libc_version());
#endif
}

void environment_get(environment *out, const backend *b)
{
    char cpu[CPU_TEXT_SIZE];

    *out = (environment){.threads = b->threads};
    cpu_describe(cpu);
    const char *const features = strrchr(cpu, ':'); /* the model stands in front of them */
    snprintf(out->cpu, sizeof out->cpu, "%.*s", (int)(features ? features - cpu : (ptrdiff_t)strlen(cpu)), cpu);
    snprintf(out->isa, sizeof out->isa, "%s", b->isa);
    libraries_name(out->library, b);
    snprintf(out->version, sizeof out->version, "%s", ckpt_train_version());
}

/* One line of text that grows as far as there is room. */
typedef struct why_text {
    char *text;
    size_t size, used;
} why_text;

static void why_add(why_text *w, const char *what, const char *now, const char *recorded)
{
    if (strcmp(now, recorded) == 0)
        return;
    const int size = snprintf(w->text + w->used, w->size - w->used, "%s%s%s instead of %s", w->used ? ", " : "", what,
                              *now ? now : "none", *recorded ? recorded : "none");
    w->used = size < 0 || (size_t)size >= w->size - w->used ? w->size - 1 : w->used + (size_t)size;
}

bool environment_same(char *why, size_t why_size, const environment *recorded, const environment *now)
{
    char threads_now[16], threads_recorded[16];
    why_text w = {why, why_size, 0};

    why[0] = '\0';
    snprintf(threads_now, sizeof threads_now, "%u", now->threads);
    snprintf(threads_recorded, sizeof threads_recorded, "%u", recorded->threads);
    why_add(&w, "threads ", threads_now, threads_recorded);
    why_add(&w, "instruction set ", now->isa, recorded->isa);
    why_add(&w, "library ", now->library, recorded->library);
    why_add(&w, "CPU ", now->cpu, recorded->cpu);
    why_add(&w, "ckpt ", now->version, recorded->version);
    return w.used == 0;
}

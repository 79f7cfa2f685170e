/* Environment: what the bits of the next steps depend on beside recipe and data. */
#ifndef CORE_ENVIRONMENT_H
#define CORE_ENVIRONMENT_H

#include "backend.h"

typedef struct environment {
    unsigned threads;
    char isa[BACKEND_TEXT_SIZE];     /* "avx2" */
    char library[BACKEND_TEXT_SIZE]; /* "oneDNN 2.6.3, glibc 2.36": the backend's, and that of exp and log */
    char cpu[BACKEND_TEXT_SIZE];     /* the model, whatever instructions are allowed */
    char version[BACKEND_TEXT_SIZE]; /* of ckpt */
} environment;

/* That of this process with the backend `b`. */
void environment_get(environment *out, const backend *b);
/* Writes one line about what differs, "" when nothing does. Returns whether the bits will be the same. */
bool environment_same(char *why, size_t why_size, const environment *recorded, const environment *now);

#endif

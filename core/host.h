/* Host: the name of this machine, for people. */
#ifndef CORE_HOST_H
#define CORE_HOST_H

#include <stdio.h>
#include <unistd.h>

#define HOST_TEXT_SIZE 65 /* 64 bytes on Linux */

static inline void host_name(char out[HOST_TEXT_SIZE])
{
    if (gethostname(out, HOST_TEXT_SIZE))
        snprintf(out, HOST_TEXT_SIZE, "unknown");
    out[HOST_TEXT_SIZE - 1] = '\0';
}

#endif

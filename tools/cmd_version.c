#include "session.h"

#include "cpu.h"

#include <stdio.h>

static int cmd_version(session *s, ckpt_error *err)
{
    char cpu[CPU_TEXT_SIZE];
    (void)s, (void)err;

    cpu_describe(cpu);
    printf("ckpt %s\nbuilt with %s\nCPU: %s\n", ckpt_version(), CKPT_BUILT_WITH, cpu);
    return 0;
}

const command CMD_VERSION = {
    .name = "version",
    .args = "",
    .summary = "Print version, libraries and CPU features",
    .exits = EXITS(0, 2),
    .group = GROUP_ABOUT,
    .run = cmd_version,
};

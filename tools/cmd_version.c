#include "print.h"
#include "session.h"

#include "cpu.h"
#include "fail.h"

static int print_json(const char *cpu, ckpt_error *err)
{
    int rc = 0;
    json_t *object = json_object();

    TRY(json_out_set(object, "version", print_json_text(ckpt_version()), err));
    TRY(json_out_set(object, "libraries", print_json_text(CKPT_BUILT_WITH), err));
    TRY(json_out_set(object, "cpu", print_json_text(cpu), err));
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

static int cmd_version(session *s, ckpt_error *err)
{
    char cpu[CPU_TEXT_SIZE];

    cpu_describe(cpu);
    if (s->json)
        return print_json(cpu, err);
    printf("ckpt %s\n", ckpt_version());
    if (!s->quiet)
        printf("built with %s\nCPU: %s\n", CKPT_BUILT_WITH, cpu);
    return 0;
}

const command CMD_VERSION = {
    .name = "version",
    .args = "",
    .summary = "Print version, libraries and CPU features",
    .examples = "ckpt version -q\tonly the first line\n",
    .exits = EXITS(0, 2),
    .group = GROUP_ABOUT,
    .run = cmd_version,
};

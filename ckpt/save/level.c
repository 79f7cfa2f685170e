/* Names of the levels of saving. */
#include <ckpt/store.h>

static const char *const NAMES[] = {
    [CKPT_LEVEL_DEFAULT] = "default", [CKPT_LEVEL_FAST] = "fast", [CKPT_LEVEL_MAX] = "max"};

const char *ckpt_level_name(ckpt_level level)
{
    return (size_t)level < sizeof NAMES / sizeof *NAMES ? NAMES[level] : NULL;
}

#include <ckpt/store.h>

const char *ckpt_version(void)
{
    return CKPT_VERSION;
}

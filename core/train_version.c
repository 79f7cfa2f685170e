#include <ckpt/store.h>
#include <ckpt/train.h>

#include <dnnl_version.h>

#define TEXT_OF(number) #number
#define TEXT(macro)     TEXT_OF(macro)

/* The store that is linked in is of the same version. */
const char *ckpt_train_version(void)
{
    return ckpt_version();
}

const char *ckpt_train_built_with(void)
{
    return "oneDNN " TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) "." TEXT(DNNL_VERSION_PATCH) ", OpenMP";
}

#include "plugin.h"

#include "fail.h"

#include <ckpt/store.h>

#ifdef CKPT_TRAIN_LIBRARY /* the file name of the library, with the number of its interface */

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* The loader's account of what stopped it begins with the name of the file that it did not find or did not like. */
static int fail_load(const char *why, ckpt_error *err)
{
    static const char ABSENT[] = CKPT_TRAIN_LIBRARY ": ";
    int rc = 0;

    if (!why || strncmp(why, ABSENT, sizeof ABSENT - 1) == 0) {
        rc = error_set(err, CKPT_EMISSING, "training needs %s, which is not installed", CKPT_TRAIN_LIBRARY);
        error_hint(err, "install the package ckpt-train, or build ckpt where libdnnl-dev and zlib1g-dev are installed");
    } else {
        rc = error_set(err, CKPT_EMISSING, "training needs %s: %s", CKPT_TRAIN_LIBRARY, why);
        error_hint(err, "the package ckpt-train brings it together with the libraries that it needs");
    }
    return rc;
}

/* The names of the table, and where each goes in it. */
static int functions_find(plugin *out, void *library, ckpt_error *err)
{
#define PLUGIN_ROW(name) {"ckpt_" #name, offsetof(plugin, name)},
    static const struct {
        const char *name;
        size_t offset;
    } ROWS[] = {PLUGIN_FUNCTIONS(PLUGIN_ROW)};
#undef PLUGIN_ROW
    int rc = 0;

    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        void *const function = dlsym(library, ROWS[i].name);
        FAIL_IF(!function, err, CKPT_EMISSING, "%s has no function %s", CKPT_TRAIN_LIBRARY, ROWS[i].name);
        /* POSIX lets dlsym give functions as data pointers; C does not let them be assigned. */
        memcpy((char *)out + ROWS[i].offset, &function, sizeof function);
    }
out:
    return rc;
}

/* Threads of OpenMP that wait for each other soon sleep, unless the person says otherwise. Left to itself libgomp lets
 * them spin for milliseconds, and a thread that spins takes the core from the writer of checkpoints, for which all of
 * them then wait; at once asleep, they take 3 % of the time to wake up. The library of OpenMP asks once, when it is
 * loaded. */
static void wait_asleep(void)
{
    if (getenv("OMP_WAIT_POLICY"))
        return;
    setenv("OMP_WAIT_POLICY", "passive", 0);
    setenv("GOMP_SPINCOUNT", "2000", 0);
}

int plugin_open(plugin *out, ckpt_error *err)
{
    int rc = 0;

    wait_asleep();
    void *const library = dlopen(CKPT_TRAIN_LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (!library)
        return fail_load(dlerror(), err);
    TRY(functions_find(out, library, err));
    FAIL_IF(strcmp(out->train_version(), ckpt_version()) != 0, err, CKPT_EMISSING,
            "%s is of version %s, this program of %s", CKPT_TRAIN_LIBRARY, out->train_version(), ckpt_version());
out:
    if (rc)
        error_hint(err, "install ckpt and ckpt-train of the same version");
    return rc;
}

#else

int plugin_open(plugin *out, ckpt_error *err)
{
    int rc = error_set(err, CKPT_EMISSING, "this ckpt was built without training, which needs libdnnl-dev");

    *out = (plugin){0};
    error_hint(err, "install libdnnl-dev and zlib1g-dev, then build it again");
    return rc;
}

#endif

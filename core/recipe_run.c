/* The recipe that a run was begun with, out of its newest good checkpoint. */
#include "run_finder.h"

#include "fail.h"

#include <stdlib.h>

static int take_recipe(void *payload, ckpt_content *content, size_t file, const ckpt_info *info, ckpt_error *err)
{
    int rc = 0;
    recipe_values *const values = payload;
    state s = {0};

    (void)info;
    TRY(state_read_values(&s, content, file, err));
    *values = s.recipe;
out:
    state_clear(&s);
    return rc;
}

int ckpt_recipe_open_run(ckpt_recipe **out, const char *run, const char *store_path, ckpt_error *err)
{
    int rc = 0;
    ckpt_store *store = NULL;
    report unheard = {0}; /* who goes on with the run is told of the same damage then */
    ckpt_recipe *const recipe = calloc(1, sizeof *recipe);

    FAIL_IF_NULL(recipe, err);
    TRY(ckpt_store_open(&store, store_path, NULL, err));
    TRY(run_find(store, run, &unheard, take_recipe, &recipe->values, err));
    *out = recipe;
out:
    ckpt_store_close(store);
    if (rc)
        free(recipe);
    return rc;
}

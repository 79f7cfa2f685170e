/* A program of somebody else that trains: STORE DATA. It has functions of its own with names that are private to the
 * library, and uses libckpt beside libckpt-train, which has a store inside. */
#include <ckpt/store.h>
#include <ckpt/train.h>

#include <stdio.h>
#include <stdlib.h>

int file_open(void);
int plan_new(void);
int error_set(void);

int file_open(void)
{
    abort();
}

int plan_new(void)
{
    abort();
}

int error_set(void)
{
    abort();
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;

    ckpt_recipe *recipe = NULL;
    ckpt_training *training = NULL;
    ckpt_training_options options = CKPT_TRAINING_OPTIONS_INIT;
    ckpt_training_result result;
    ckpt_store *store = NULL;
    ckpt_error err = {0};
    bool existed = false;
    char id[CKPT_ID_SIZE];

    options.store_path = argv[1];
    options.data = argv[2];
    int rc = ckpt_store_init(&existed, argv[1], &err);
    if (!rc)
        rc = ckpt_recipe_open(&recipe, "mnist-cnn", &err);
    if (!rc)
        rc = ckpt_recipe_set(recipe, "net.layers", "flatten, dense 10", &err);
    if (!rc)
        rc = ckpt_recipe_set(recipe, "run.steps", "2", &err);
    if (!rc)
        rc = ckpt_training_new(&training, recipe, &options, &err);
    if (!rc)
        rc = ckpt_training_run(&result, training, &err);
    ckpt_training_free(training);
    ckpt_recipe_free(recipe);
    if (!rc)
        rc = ckpt_store_open(&store, argv[1], NULL, &err);
    if (!rc)
        rc = ckpt_find(id, store, "step:2", &err);
    ckpt_store_close(store);
    if (rc) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("ckpt %s: trained 2 steps, and found them in the store\n", ckpt_train_version());
    return 0;
}

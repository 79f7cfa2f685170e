/* A program of somebody else. It has a function of its own for each of some names that are private to the library, and
 * must neither clash with nor be called by it. */
#include <ckpt/store.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int file_open(void);
int pool_new(void);
int error_set(void);

int file_open(void)
{
    abort();
}

int pool_new(void)
{
    abort();
}

int error_set(void)
{
    abort();
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;

    float weights[] = {1.5F, -0.0F, 3.25F};
    float restored[3] = {0};
    ckpt_tensor tensor = {.name = "layer.weight", .dtype = CKPT_F32, .rank = 1, .shape = {3}, .data = weights};
    ckpt_save_result saved;
    ckpt_store *store = NULL;
    ckpt_error err = {0};
    bool existed = false;

    if (ckpt_store_init(&existed, argv[1], &err) || ckpt_store_open(&store, argv[1], NULL, &err) ||
        ckpt_save_tensors(&saved, store, NULL, &tensor, 1, NULL, 0, NULL, &err))
        goto failed;
    tensor.data = restored;
    if (ckpt_restore_tensors(store, "latest", &tensor, 1, &err))
        goto failed;
    ckpt_store_close(store);
    if (memcmp(weights, restored, sizeof weights) != 0)
        return 3;
    printf("ckpt %s: saved and restored\n", ckpt_version());
    return 0;

failed:
    fprintf(stderr, "%s\n", err.message);
    ckpt_store_close(store);
    return 1;
}

/* Pickles: read as a graph whose refs all lie inside, then walked for the tensors of PyTorch. */
#include "fuzz_tensor_file.h"

#include "pickle.h"
#include "torch_graph.h"

#define FILE_SIZE ((uint64_t)1 << 20)

static void check_graph(const pickle *graph, size_t size)
{
    CHECK(graph->root > 0 && graph->root < graph->node_count);
    for (size_t i = 0; i < graph->node_count; i++) {
        const pickle_node *node = &graph->nodes[i];
        CHECK(node->callee < graph->node_count && node->arguments < graph->node_count);
        CHECK(node->state < graph->node_count);
        if (node->kind == PICKLE_TEXT || node->kind == PICKLE_BYTES)
            CHECK(node->as.at <= size && node->count <= size - node->as.at);
    }
    for (size_t i = 0; i < graph->cell_count; i++) {
        CHECK(graph->cells[i].value > 0 && graph->cells[i].value < graph->node_count);
        CHECK(graph->cells[i].next < graph->cell_count);
    }
}

/* Every storage is there and fills the file. */
static int storage_find(void *payload, uint64_t *offset, uint64_t *size, const char *key, size_t key_size,
                        ckpt_error *err)
{
    (void)payload, (void)key, (void)key_size, (void)err;
    *offset = 0;
    *size = FILE_SIZE;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pickle graph;
    tensor_file file = {0};

    if (pickle_read(&graph, data, size, NULL))
        return 0;
    check_graph(&graph, size);
    if (torch_graph_tensors(&file, &graph, FILE_SIZE, storage_find, NULL, NULL) == 0) {
        for (size_t i = 0; i < file.count; i++)
            check_view(&file.tensors[i], FILE_SIZE);
        check_extents(&file, FILE_SIZE);
    }
    tensor_file_clear(&file);
    pickle_clear(&graph);
    return 0;
}

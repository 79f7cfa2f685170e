/* The tensors of a PyTorch pickle: which names the nesting gives them and which part of which storage they show. */
#ifndef CKPT_TORCH_GRAPH_H
#define CKPT_TORCH_GRAPH_H

#include "pickle.h"
#include "tensor_file.h"

/* Where in the file does the storage `key` lie? CKPT_EFORMAT when there is none, or it cannot be read in place. */
typedef int (*torch_storage_fn)(void *payload, uint64_t *offset, uint64_t *size, const char *key, size_t key_size,
                                ckpt_error *err);

/* Adds a view for every tensor that can be reached from the root through dictionaries, lists, tuples and the attributes
 * of objects. Keys and indices joined by dots are the name; what has a key that is no name is left out, and so are
 * sparse, quantised and other tensors that are more than a view of numbers. Uses the marks of the graph's nodes.
 * Errors: CKPT_EFORMAT for a tensor that lies about its place, CKPT_ENOMEM, and what `find` says. */
int torch_graph_tensors(tensor_file *out, pickle *graph, uint64_t file_size, torch_storage_fn find, void *payload,
                        ckpt_error *err);

#endif

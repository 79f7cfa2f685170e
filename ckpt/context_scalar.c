/* The context kernel of every machine. */
#define CONTEXT_TARGET
#include "context_block.h"

const context_kernel CONTEXT_KERNEL_SCALAR = {.name = "scalar",
                                              .numbers = kernel_numbers,
                                              .elements = kernel_elements,
                                              .places = kernel_places,
                                              .sums = kernel_sums,
                                              .growths = kernel_growths,
                                              .grow = kernel_grow,
                                              .predict = kernel_predict,
                                              .approach = kernel_approach,
                                              .values = kernel_values,
                                              .join = kernel_join};

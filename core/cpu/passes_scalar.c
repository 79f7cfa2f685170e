/* The passes for every machine: what the compiler's baseline has. */
#define PASS_TABLE PASSES_SCALAR
#define PASS_NAME  "scalar"
#include "pass_loops.h"

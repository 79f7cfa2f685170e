/* The passes for x86 machines with AVX2. CMakeLists.txt has the compiler's options; elsewhere there is nothing here. */
#include "passes.h"

#if defined(__AVX2__)
#define PASS_TABLE PASSES_AVX2
#define PASS_NAME  "avx2"
#include "pass_loops.h"
#endif

/* The passes for x86 machines with AVX-512. CMakeLists.txt has the compiler's options; elsewhere there is nothing here.
 */
#include "passes.h"

#if defined(__AVX512F__)
#define PASS_TABLE PASSES_AVX512
#define PASS_NAME  "avx512"
#include "pass_loops.h"
#endif

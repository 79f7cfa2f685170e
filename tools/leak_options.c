/* For builds with the address sanitizer: what its search for leaks has to know of a program that opens a plugin.
 *
 * It looks for pointers in the thread-local memory of all libraries, and crashes at that of one which was opened later
 * while threads of OpenMP live (gcc 12 with glibc 2.36). So it is kept from there. What is known there only then looks
 * lost: the text of the loader's last error, which is given up before, the thread-local memory itself, which the loader
 * allocates, and the settings that OpenMP keeps for a thread. */
#include <dlfcn.h>

const char *__lsan_default_options(void);
const char *__lsan_default_suppressions(void);

__attribute__((visibility("default"))) const char *__lsan_default_options(void)
{
    return "use_tls=0:print_suppressions=0";
}

__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
    return "leak:ld-linux\nleak:libgomp.so\n";
}

/* Asked a second time, the loader forgets its error. */
__attribute__((destructor)) static void loader_error_forget(void)
{
    (void)dlerror();
    (void)dlerror();
}

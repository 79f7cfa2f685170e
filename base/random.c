#include "random.h"

#include "fail.h"

#include <errno.h>
#include <sys/random.h>

int random_u64(uint64_t *out, ckpt_error *err)
{
    int rc = 0;
    ssize_t n;

    do
        n = getrandom(out, sizeof *out, 0); /* up to 256 bytes come whole or not at all */
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof *out)
        rc = error_errno(err, n < 0 ? errno : EIO, "random number");
    return rc;
}

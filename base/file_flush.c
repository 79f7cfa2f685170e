/* Telling the kernel to begin writing, so that the fsync at the end of a long file has little left to do. */
#define _GNU_SOURCE /* sync_file_range */
#include "file.h"

#include <fcntl.h>

void file_tmp_flush_hint(const file_tmp *tmp, uint64_t from)
{
#ifdef SYNC_FILE_RANGE_WRITE
    /* Only a hint: an error shows again at the fsync, which counts. A length of 0 means up to the end. */
    (void)sync_file_range(tmp->fd, (off_t)from, 0, SYNC_FILE_RANGE_WRITE);
#else
    (void)tmp;
    (void)from;
#endif
}

/* Records of leases: whatever the file holds, fields stay within their limits, and what was read is read again from
 * what is written. */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz.h"

#include "lease_record.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void record_of(lease_record *out, const void *data, size_t size)
{
    const int fd = memfd_create("lease", MFD_CLOEXEC);

    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    CHECK(lease_record_read(out, fd, "lease", NULL) == 0);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lease_record record, again;
    lease_watch watch = {0};

    record_of(&record, data, size);
    CHECK(record.size == (size < LEASE_RECORD_SIZE_MAX ? size : LEASE_RECORD_SIZE_MAX));
    CHECK(memcmp(record.text, data, record.size) == 0 && record.text[record.size] == 0);
    CHECK(strlen(record.token) < LEASE_TOKEN_SIZE && strlen(record.host) < LEASE_HOST_MAX);
    CHECK(record.stale_ms <= LEASE_STALE_MS_MAX);
    CHECK(!lease_watch_stale(&watch, &record, 0)); /* what is seen for the first time is alive */

    lease_record_format(&record);
    record_of(&again, record.text, record.size);
    CHECK(again.by_lock == record.by_lock && again.stale_ms == record.stale_ms && again.pid == record.pid);
    CHECK(strcmp(again.token, record.token) == 0 && strcmp(again.host, record.host) == 0);
    return 0;
}

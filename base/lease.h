/* Lease: a file that at most one process holds, and that a dead process cannot keep.
 *
 *     lease *l = NULL;
 *     TRY(lease_acquire(&l, path, NULL, err));       CKPT_EBUSY: another one has it
 *     ...
 *     TRY(lease_check(l, err));                      before each step that cannot be undone
 *     ...
 * out:
 *     lease_release(l);
 *
 * The file exists while the lease is held, and holds one record for people and for observers on other machines:
 *
 *     ckpt lease 1
 *     counter 00000000000000a7                       advanced by a thread of the holder every interval_ms
 *     kind lock                                      or: counter
 *     token 6e0f...                                  128 random bits, new for each acquisition
 *     stale_ms 20000
 *     pid 4711
 *     host gpu-7
 *
 * On a local disk the truth is an OFD lock on the file: the kernel drops it with its holder, so a file without a lock
 * is free at once. Where locks do not reach everyone (NFS, SMB, FUSE and their kin, or a kernel without OFD locks) it
 * is the counter: whoever wants the lease watches the file, and takes it over when the file stood still for stale_ms of
 * the watcher's own monotonic clock. No clock is compared with another machine's. Both kinds advance the counter, so
 * that a server and its NFS clients agree about one file.
 *
 * A holder that was frozen longer than stale_ms (SIGSTOP, suspend, network away) may have been replaced; it learns that
 * from lease_check. Acquire in the process that keeps it: a fork inherits a lock, but not the thread. */
#ifndef BASE_LEASE_H
#define BASE_LEASE_H

#include <ckpt/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEASE_INTERVAL_MS  2000
#define LEASE_STALE_MS     20000
#define LEASE_STALE_MS_MAX 600000 /* believed of a file from outside */
#define LEASE_HOST_MAX     64

typedef struct lease lease;
struct lease_state;

/* Zeros are the defaults. */
typedef struct lease_options {
    uint32_t wait_ms;     /* wait so long for a living holder; 0: not at all */
    uint32_t interval_ms; /* 0: LEASE_INTERVAL_MS */
    uint32_t stale_ms;    /* 0: LEASE_STALE_MS; the larger of this and of what the file says counts */
    bool force_counter;   /* do not use locks, as on a network file system */
    /* Called between two looks at what others hold, `holder` being one of those still in doubt. Its non-zero return
     * ends the waiting and is returned. NULL: nobody asks. */
    int (*waiting)(void *payload, const struct lease_state *holder, ckpt_error *err);
    void *payload;
} lease_options;

/* Takes the lease on `path`, whose folder exists; options may be NULL. Where the counter decides and a file is there,
 * this watches it for up to stale_ms even when wait_ms is 0, and gives up as soon as the holder shows life and wait_ms
 * has passed.
 * Errors: CKPT_EBUSY says who holds it. */
int lease_acquire(lease **out, const char *path, const lease_options *options, ckpt_error *err);

/* Is it still ours? CKPT_EBUSY when the file was taken over or removed, or when, with the counter, it could not be
 * advanced for half of stale_ms, so that others may soon believe us dead. May be called by any thread. */
int lease_check(lease *l, ckpt_error *err);

/* Stops the thread, removes the file if it is still ours, frees l. NULL is fine. */
void lease_release(lease *l);

typedef enum lease_status {
    LEASE_FREE, /* there is no such file */
    LEASE_HELD,
    LEASE_STALE /* the file is left of a holder that is gone */
} lease_status;

typedef struct lease_state {
    lease_status status;
    uint64_t pid;              /* 0: not known */
    char host[LEASE_HOST_MAX]; /* empty: not known */
} lease_state;

/* Says how `count` leases stand, without taking them. Where locks decide it does not wait; where the counter does it
 * watches all undecided ones together, for at most the largest stale_ms. A stale file is removed by acquiring and
 * releasing it, never by its name alone: one that was just made and not yet locked looks stale too. */
int lease_probe(lease_state *states, const char *const *paths, size_t count, const lease_options *options,
                ckpt_error *err);

#endif

/* What a lease file holds (see lease.h), and how an observer judges from it whether the holder lives. */
#ifndef BASE_LEASE_RECORD_H
#define BASE_LEASE_RECORD_H

#include "lease.h"

#define LEASE_RECORD_SIZE_MAX 512 /* more of a file is not looked at */
#define LEASE_TOKEN_SIZE      33

typedef struct lease_record {
    uint64_t counter;
    bool by_lock;                 /* kind lock */
    char token[LEASE_TOKEN_SIZE]; /* empty: not known, as all below when the file is empty or not ours */
    uint32_t stale_ms;
    uint64_t pid;
    char host[LEASE_HOST_MAX];
    /* The bytes themselves: any change of them is a sign of life. */
    size_t size;
    char text[LEASE_RECORD_SIZE_MAX + 1];
} lease_record;

/* A record for this process with a new token. */
int lease_record_new(lease_record *out, bool by_lock, uint32_t stale_ms, ckpt_error *err);
/* Puts the fields into `text`; its size does not depend on the counter. */
void lease_record_format(lease_record *record);
/* Reads and takes apart what it can; an empty file or one of something else gives an empty token. */
int lease_record_read(lease_record *out, int fd, const char *path, ckpt_error *err);

/* An observer's memory of one file; starts zeroed. */
typedef struct lease_watch {
    bool started, changed; /* changed: it has shown life since we watch */
    uint64_t since_ms;     /* when its present text was first seen */
    lease_record seen;
} lease_watch;

/* Tells the watch what is there now. Returns true when that has stood still long enough to be believed dead. */
bool lease_watch_stale(lease_watch *watch, const lease_record *now, uint32_t stale_ms);

/* Takes away the file of a holder that was seen dead. Two watchers may come to that at the same time, and the slower
 * one must not hit the new lease of the quicker: so the file is first moved aside, which only one can do to one file,
 * then looked at, and put back if it is not the one that was judged. */
int lease_record_break(const char *path, const lease_record *dead, ckpt_error *err);

#endif

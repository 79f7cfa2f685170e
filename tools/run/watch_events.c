#include "watch_events.h"

#include "array.h"
#include "fail.h"
#include "file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define READ_SIZE 16384
#define MASK                                                                                                           \
    (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_MODIFY | IN_CREATE | IN_DELETE | IN_DELETE_SELF |               \
     IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)

_Static_assert(READ_SIZE >= sizeof(struct inotify_event) + NAME_MAX + 1, "the longest event fits");

typedef struct folder_row {
    int number; /* of the kernel */
    char *path;
} folder_row;

struct watch_events {
    int fd;
    folder_row *rows; /* sorted by number */
    size_t count, capacity;
};

int watch_events_new(watch_events **out, ckpt_error *err)
{
    int rc = 0;
    watch_events *const e = calloc(1, sizeof *e);

    FAIL_IF_NULL(e, err);
    e->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (e->fd < 0) {
        (void)error_errno(err, errno, "watch folders");
        rc = error_recode(err, CKPT_EMISSING);
        goto out;
    }
    *out = e;
out:
    if (rc)
        free(e);
    return rc;
}

void watch_events_free(watch_events *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->count; i++)
        free(e->rows[i].path);
    free(e->rows);
    file_close(&e->fd);
    free(e);
}

int watch_events_fd(const watch_events *e)
{
    return e->fd;
}

static size_t row_place(bool *found, const watch_events *e, int number)
{
    size_t low = 0, high = e->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (e->rows[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < e->count && e->rows[low].number == number;
    return low;
}

int watch_events_add(watch_events *e, const char *folder, ckpt_error *err)
{
    int rc = 0;
    bool found;
    char *path = NULL;

    FAIL_IF(e->count >= WATCH_FOLDERS_MAX, err, CKPT_EUSAGE, "more than %d folders", WATCH_FOLDERS_MAX);
    const int number = inotify_add_watch(e->fd, folder, MASK);
    if (number < 0) {
        rc = error_errno(err, errno, "watch %s", folder);
        goto out;
    }
    const size_t i = row_place(&found, e, number);
    if (found && strcmp(e->rows[i].path, folder) == 0)
        goto out;
    path = strdup(folder);
    FAIL_IF_NULL(path, err);
    if (found) { /* the same folder, which was renamed */
        free(e->rows[i].path);
        e->rows[i].path = path;
        path = NULL;
        goto out;
    }
    folder_row *const grown = array_room(e->rows, &e->capacity, e->count + 1, sizeof *grown);
    FAIL_IF_NULL(grown, err);
    e->rows = grown;
    memmove(e->rows + i + 1, e->rows + i, (e->count - i) * sizeof *e->rows);
    e->rows[i] = (folder_row){number, path};
    e->count++;
    path = NULL;
out:
    free(path);
    return rc;
}

static void row_remove(watch_events *e, size_t i)
{
    free(e->rows[i].path);
    e->count--;
    memmove(e->rows + i, e->rows + i + 1, (e->count - i) * sizeof *e->rows);
}

static void tell(watch_events *e, const struct inotify_event *event, watch_event_fn each, void *payload)
{
    bool found;
    char path[FILE_PATH_MAX];

    if (event->mask & IN_Q_OVERFLOW) {
        each(payload, WATCH_EVENT_LOST, "");
        return;
    }
    const size_t i = row_place(&found, e, event->wd);
    if (!found)
        return;
    const char *const folder = e->rows[i].path;
    if (event->mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF)) {
        each(payload, WATCH_EVENT_FOLDER, folder);
        if (event->mask & IN_IGNORED)
            row_remove(e, i);
        return;
    }
    if (event->mask & IN_ISDIR)
        each(payload, WATCH_EVENT_FOLDER, folder);
    if (!event->len)
        return;
    if (strcmp(folder, ".") == 0)
        snprintf(path, sizeof path, "%s", event->name);
    else if (path_join(path, folder, event->name, NULL))
        return;
    const bool closed = event->mask & (IN_CLOSE_WRITE | IN_MOVED_TO);
    const bool written = event->mask & IN_MODIFY;
    each(payload, closed ? WATCH_EVENT_CLOSED : written ? WATCH_EVENT_WRITTEN : WATCH_EVENT_CHANGED, path);
}

int watch_events_take(watch_events *e, watch_event_fn each, void *payload, ckpt_error *err)
{
    union {
        struct inotify_event event; /* for its alignment */
        char bytes[READ_SIZE];
    } buffer;
    ssize_t size;

    while ((size = read(e->fd, buffer.bytes, sizeof buffer.bytes)) > 0) {
        struct inotify_event event;
        for (ssize_t at = 0; at + (ssize_t)sizeof event <= size; at += (ssize_t)(sizeof event + event.len)) {
            const struct inotify_event *const here = (const struct inotify_event *)(const void *)(buffer.bytes + at);
            event = *here;
            tell(e, here, each, payload);
        }
    }
    if (size < 0 && errno != EAGAIN && errno != EINTR)
        return error_errno(err, errno, "read events of folders");
    return 0;
}

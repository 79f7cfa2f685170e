/* Events: what the kernel tells of files in watched folders (inotify(7)), as three questions need it: was this path
 * closed after writing, was it written on since, and is there a folder that nobody looks into yet?
 *
 * Network file systems tell nothing of what other machines write, and every queue can overflow: events only make things
 * quicker, and who uses them looks for himself now and then. */
#ifndef RUN_WATCH_EVENTS_H
#define RUN_WATCH_EVENTS_H

#include <ckpt/error.h>

#define WATCH_FOLDERS_MAX 8192 /* folders beyond are only looked at */

typedef enum watch_event {
    WATCH_EVENT_CLOSED,  /* closed after writing, or moved to this name */
    WATCH_EVENT_WRITTEN, /* written on: it is open until it is closed */
    WATCH_EVENT_CHANGED, /* made, removed, moved away */
    WATCH_EVENT_FOLDER,  /* a folder came or went: look around; the path is the folder it is in */
    WATCH_EVENT_LOST     /* some events are lost: look at everything; the path is "" */
} watch_event;

typedef struct watch_events watch_events;

/* CKPT_EMISSING where the system has none to give. */
int watch_events_new(watch_events **out, ckpt_error *err);
void watch_events_free(watch_events *e); /* NULL is fine */
int watch_events_fd(const watch_events *e);

/* Asks for the events of a folder; asking again changes nothing. Errors: CKPT_ENOTFOUND, CKPT_EIO, CKPT_ENOSPC (the
 * limit of the system), CKPT_EUSAGE (ours). */
int watch_events_add(watch_events *e, const char *folder, ckpt_error *err);

/* Takes all that have come; never waits. */
typedef void (*watch_event_fn)(void *payload, watch_event event, const char *path);
int watch_events_take(watch_events *e, watch_event_fn each, void *payload, ckpt_error *err);

#endif

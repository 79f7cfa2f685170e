/* Session: one run of the program: what the global options said, the arguments of the command, the store, and how to
 * speak with the person at the other end. */
#ifndef TOOLS_SESSION_H
#define TOOLS_SESSION_H

#include "command.h"

#include "progress.h"

#include <ckpt/store.h>

#define SESSION_NOTES_MAX 10 /* of the library, in one run; the rest are counted */

typedef struct session {
    const command *command;
    arguments args;
    const char *store_path; /* --store; NULL: CKPT_STORE or the nearest upwards */
    bool quiet, json;
    bool color; /* of stdout */
    bool log_times; /* notes and warnings begin with the time: nobody looks on */
    bool catches_signals;
    unsigned threads; /* 0: as many as this process may use */
    ckpt_store *store;
    bool notes_are_warnings; /* of commands to which the library notes nothing but trouble */
    size_t note_count;
    char *notes[SESSION_NOTES_MAX]; /* that the library gave so far */
    const char *work;               /* what is under way; NULL: nothing */
    bool work_counts;               /* things, not bytes */
    uint64_t work_done;
    progress progress;
} session;

/* Takes over what the global options among args say. */
int session_configure(session *s, ckpt_error *err);

/* Opens the store with progress, notes and signals; later calls do nothing. */
int session_open(session *s, ckpt_error *err);
void session_close(session *s);

/* Long work begins that calls the progress callback: shows how far it is, and lets SIGINT and SIGTERM stop it with
 * CKPT_EINTERRUPTED. */
void session_work_begin(session *s, const char *what);
void session_work_end(session *s); /* also when nothing is under way */
/* Work of things begins, `done` of which were done before; `what` must stay until session_work_end. The bar is for
 * terminals only: such work prints lines of its own, or is short. */
void session_count_begin(session *s, const char *what, uint64_t done);
void session_count(session *s, uint64_t done, uint64_t total);
void session_count_left(session *s, double seconds); /* how long it will take, for who knows better; below 0: nobody */

/* From now on the first SIGINT or SIGTERM makes session_stopped() true; another one, more than a second later, has its
 * usual effect. */
void session_catch_signals(session *s);
bool session_stopped(void);
int session_signal(void); /* the one that stopped it, or 0 */

/* "note: ..." or "warning: ..." on stderr; notes not with --quiet. */
void session_note(session *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void session_warn(session *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A note of the library, told once however often it comes, as when the store is opened twice. */
void session_library_note(session *s, const char *note);

/* 0 with --yes, or when a person at the terminal agrees; else CKPT_ECONFIRM. `what` is what would be done: "remove 3
 * checkpoints". */
int session_confirm(session *s, const char *what, ckpt_error *err);
/* Is there a person to ask? */
bool session_can_ask(void);
/* Asks on the terminal: "WHAT IS; WHAT TO DO? [y/N]". Only "y" and "yes" agree. */
bool session_ask(const char *what_is, const char *what_to_do);

/* Opens what `name` says: a checkpoint, else a file on disk; in this order. Without a store only files. */
int session_open_content(ckpt_content **out, session *s, const char *name, ckpt_error *err);

/* Prints the one line and the hint of an error; with --json one line that is an object. */
void session_report(const session *s, int rc, const ckpt_error *err);

#endif

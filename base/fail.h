/* Filling and passing on errors; private to the libraries.
 *
 * A function keeps `int rc = 0;` and one label `out:` below which everything is released:
 *
 *     TRY(file_read(&bytes, &size, path, LIMIT, err));        passes a lower error on
 *     FAIL_IF(size < 8, err, CKPT_EDATA, "%s: too short", path);
 *     FAIL(err, CKPT_ENOSPC, "store needs %s, %s free", a, b);
 *
 * A lower error is never overwritten: a caller that knows more puts it in front with error_prefix(). */
#ifndef BASE_FAIL_H
#define BASE_FAIL_H

#include <ckpt/error.h>
#include <stdarg.h>
#include <stddef.h>

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        rc = (call);                                                                                                   \
        if (rc)                                                                                                        \
            goto out;                                                                                                  \
    } while (0)

#define FAIL(err, code, ...)                                                                                           \
    do {                                                                                                               \
        rc = error_set((err), (code), __VA_ARGS__);                                                                    \
        goto out;                                                                                                      \
    } while (0)

#define FAIL_IF(condition, err, code, ...)                                                                             \
    do {                                                                                                               \
        if (condition)                                                                                                 \
            FAIL((err), (code), __VA_ARGS__);                                                                          \
    } while (0)

/* For the allocation that came back NULL. */
#define FAIL_IF_NULL(pointer, err)                                                                                     \
    do {                                                                                                               \
        if (!(pointer)) {                                                                                              \
            rc = error_memory(err);                                                                                    \
            goto out;                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Each returns the code that it stored, so that `return error_set(...)` reads well. err may be NULL. */
int error_set(ckpt_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* "<formatted>: <strerror>"; the code follows from errno: ENOSPC and EDQUOT are CKPT_ENOSPC, ENOENT is CKPT_ENOTFOUND,
 * ENOMEM is CKPT_ENOMEM, EINTR is CKPT_EINTERRUPTED, all else is CKPT_EIO. Adds the usual hint for ENOSPC, EROFS and
 * EACCES. */
int error_errno(ckpt_error *err, int sys_errno, const char *format, ...) __attribute__((format(printf, 3, 4)));

int error_memory(ckpt_error *err);

/* Puts context in front of the message: "save epoch_1.pt" + ": " + message. Cuts the tail when it gets too long. */
void error_prefix(ckpt_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sets the hint unless a lower layer has given one already. */
void error_hint(ckpt_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
void error_where(ckpt_error *err, const char *path); /* the end of a long path is kept */

/* Tells apart what went wrong with a file that others ask about from what went wrong with us: when `why` is for want of
 * memory, descriptors or permission, or because of an interruption, it becomes `err` and its code is returned; else
 * 0. */
int error_pass_own(ckpt_error *err, const ckpt_error *why);

/* Returns `code`, as the code of `err` too: what a caller may not ask for is damage where a file asks for it. */
int error_recode(ckpt_error *err, int code);

/* For files of our own, where only damage puts a folder in place of one or makes a device refuse to read it:
 * CKPT_EUSAGE of file_open and EIO become CKPT_EDATA, 0 and other codes stay. Returns the code. Without `err` EIO is
 * not told from other CKPT_EIO. */
int error_as_damage(int code, ckpt_error *err);

/* The text of a message: one line, cut between characters where it is too long; control characters become '?', since
 * messages quote names from outside, which may hold newlines and terminal escapes. */
void error_text(char *dst, size_t dst_size, const char *format, va_list args) __attribute__((format(printf, 3, 0)));

/* Forgets an error that turned out to be none ("no such file" when that is fine); returns 0. */
int error_clear(ckpt_error *err);

#endif

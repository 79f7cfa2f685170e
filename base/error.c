/* Errors: codes with their names, and the one place where messages are put together. */
#include "fail.h"
#include "utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct code_name {
    int code;
    const char *name;
} CODES[] = {
    {CKPT_OK, "ok"},
    {CKPT_EDIFFER, "different"},
    {CKPT_EUSAGE, "usage"},
    {CKPT_ECONFIRM, "not confirmed"},
    {CKPT_EDATA, "damaged"},
    {CKPT_EFORMAT, "bad format"},
    {CKPT_ECHANGED, "changing"},
    {CKPT_ENOTFOUND, "not found"},
    {CKPT_ENOSTORE, "no store"},
    {CKPT_ENOSPC, "no space"},
    {CKPT_EQUOTA, "over quota"},
    {CKPT_EREMOTE, "remote failed"},
    {CKPT_EWINDOW, "window over"},
    {CKPT_EBUSY, "busy"},
    {CKPT_EMISSING, "missing feature"},
    {CKPT_EVERSION, "newer version"},
    {CKPT_EIO, "input/output"},
    {CKPT_ENOMEM, "no memory"},
    {CKPT_EBUG, "bug"},
    {CKPT_EINTERRUPTED, "interrupted"},
};

static const struct code_name *code_find(int code)
{
    for (size_t i = 0; i < sizeof CODES / sizeof CODES[0]; i++)
        if (CODES[i].code == code)
            return &CODES[i];
    return NULL;
}

const char *ckpt_error_name(int code)
{
    const struct code_name *found = code_find(code);
    return found ? found->name : "unknown";
}

int ckpt_error_exit_status(int code)
{
    return (code_find(code) ? code : CKPT_EBUG) / 10;
}

static void text_clean(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F)
            *text = '?';
}

void error_text(char *dst, size_t dst_size, const char *format, va_list args)
{
    const int full_size = vsnprintf(dst, dst_size, format, args);
    if (full_size < 0)
        dst[0] = '\0';
    size_t size = strlen(dst);
    if (full_size > 0 && (size_t)full_size > size && size > 3)
        size = utf8_cut(dst, size, size - 3); /* cut already; three back is before a character that lost its tail */
    dst[size] = '\0';
    text_clean(dst);
}

/* Appends as much of `text` as fits. */
static void text_append(char *dst, size_t dst_size, const char *text)
{
    const size_t used = strlen(dst);
    const size_t size = utf8_cut(text, strlen(text), dst_size - 1 - used);
    memcpy(dst + used, text, size);
    dst[used + size] = '\0';
}

static int error_fill(ckpt_error *err, int code, int sys_errno, const char *message)
{
    if (err) {
        memset(err, 0, sizeof *err);
        err->code = code;
        err->sys_errno = sys_errno;
        text_append(err->message, sizeof err->message, message);
    }
    return code;
}

int error_set(ckpt_error *err, int code, const char *format, ...)
{
    char message[sizeof err->message]; /* not in err: the arguments may point into it */
    va_list args;
    va_start(args, format);
    error_text(message, sizeof message, format, args);
    va_end(args);
    return error_fill(err, code, 0, message);
}

static int code_from_errno(int sys_errno)
{
    switch (sys_errno) {
    case ENOSPC:
    case EDQUOT:
        return CKPT_ENOSPC;
    case ENOENT:
        return CKPT_ENOTFOUND;
    case ENOMEM:
        return CKPT_ENOMEM;
    case EINTR:
        return CKPT_EINTERRUPTED;
    default:
        return CKPT_EIO;
    }
}

static const char *hint_from_errno(int sys_errno)
{
    switch (sys_errno) {
    case ENOSPC:
        return "free some space, for instance with `ckpt prune`, or use another disk";
    case EDQUOT:
        return "your quota on this disk is used up: free some space, for instance with `ckpt prune`, or use another "
               "disk";
    case EROFS:
        return "this file system is mounted read-only; use a folder on another one";
    case EACCES:
        return "look at owner and mode with `ls -ld`, also those of the folders above";
    default:
        return NULL;
    }
}

int error_errno(ckpt_error *err, int sys_errno, const char *format, ...)
{
    char why[128], message[sizeof err->message];
    if (strerror_r(sys_errno, why, sizeof why))
        snprintf(why, sizeof why, "error %d", sys_errno);
    /* Reasons stand inside a line, so they begin small: "no space left on device", but "RPC". */
    if (why[0] >= 'A' && why[0] <= 'Z' && why[1] >= 'a' && why[1] <= 'z')
        why[0] = (char)(why[0] - 'A' + 'a');

    /* The reason is worth more than the end of a long path, so it has its room. */
    va_list args;
    va_start(args, format);
    error_text(message, sizeof message - strlen(why) - strlen(": "), format, args);
    va_end(args);
    text_append(message, sizeof message, ": ");
    text_append(message, sizeof message, why);

    const int code = error_fill(err, code_from_errno(sys_errno), sys_errno, message);
    const char *hint = hint_from_errno(sys_errno);
    if (hint)
        error_hint(err, "%s", hint);
    return code;
}

int error_memory(ckpt_error *err)
{
    return error_fill(err, CKPT_ENOMEM, ENOMEM, "out of memory");
}

int error_pass_own(ckpt_error *err, const ckpt_error *why)
{
    const int system = why->sys_errno;

    if (why->code != CKPT_ENOMEM && why->code != CKPT_EINTERRUPTED && system != EMFILE && system != ENFILE &&
        system != EACCES && system != EPERM)
        return 0;
    if (err)
        *err = *why;
    return why->code;
}

int error_recode(ckpt_error *err, int code)
{
    if (err)
        err->code = code;
    return code;
}

int error_as_damage(int code, ckpt_error *err)
{
    const bool refused = code == CKPT_EIO && err && err->sys_errno == EIO;

    return code == CKPT_EUSAGE || refused ? error_recode(err, CKPT_EDATA) : code;
}

int error_clear(ckpt_error *err)
{
    return error_fill(err, CKPT_OK, 0, "");
}

void error_prefix(ckpt_error *err, const char *format, ...)
{
    if (!err)
        return;
    char joined[sizeof err->message];
    va_list args;
    va_start(args, format);
    error_text(joined, sizeof joined / 2, format, args); /* what failed matters more than a long context */
    va_end(args);
    text_append(joined, sizeof joined, ": ");
    text_append(joined, sizeof joined, err->message);
    memcpy(err->message, joined, strlen(joined) + 1);
}

void error_hint(ckpt_error *err, const char *format, ...)
{
    if (!err || err->hint[0])
        return;
    va_list args;
    va_start(args, format);
    error_text(err->hint, sizeof err->hint, format, args);
    va_end(args);
}

void error_where(ckpt_error *err, const char *path)
{
    if (!err)
        return;
    /* The end of a long path tells more than its beginning. */
    const size_t size = strlen(path), room = sizeof err->where - 1;
    const char *tail = size <= room ? path : path + size - (room - strlen("..."));
    while (size > room && ((unsigned char)*tail & 0xC0) == 0x80)
        tail++;
    snprintf(err->where, sizeof err->where, "%s%s", size <= room ? "" : "...", tail);
    text_clean(err->where);
}

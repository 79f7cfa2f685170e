/* <ckpt/error.h>: how every function of ckpt says what went wrong.
 *
 * Functions that can fail return 0 or one of the codes below, and take a `ckpt_error *err` as their last parameter.
 * `err` may be NULL. A code divided by ten is the exit status of the program, so the table of docs/errors.md and this
 * list cannot drift apart. Codes below 1000 are stable: a number is never given a second meaning.
 *
 *     ckpt_error err = {0};
 *     if (ckpt_store_open(&store, ".", NULL, &err))
 *         fprintf(stderr, "%s\n", err.message);
 */
#ifndef CKPT_ERROR_H
#define CKPT_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CKPT_API __attribute__((visibility("default")))
#else
#define CKPT_API
#endif

enum {
    CKPT_OK = 0,
    CKPT_EDIFFER = 10,       /* a comparison or a check found differences */
    CKPT_EUSAGE = 20,        /* the caller asked for something that makes no sense */
    CKPT_ECONFIRM = 21,      /* something would be deleted or overwritten and nobody agreed */
    CKPT_EDATA = 30,         /* data are damaged: a checksum, a length or a structure is wrong */
    CKPT_EFORMAT = 31,       /* the bytes are not of the expected format, or are hostile */
    CKPT_ECHANGED = 32,      /* a file kept changing while it was read */
    CKPT_ENOTFOUND = 40,     /* no such checkpoint, tensor, tag or file */
    CKPT_ENOSTORE = 41,      /* no store here */
    CKPT_ENOSPC = 50,        /* the disk is full */
    CKPT_EQUOTA = 51,        /* the quota of the store would be exceeded */
    CKPT_EREMOTE = 60,       /* a remote refused or could not be reached */
    CKPT_EWINDOW = 70,       /* the time window is over; resume later */
    CKPT_EBUSY = 80,         /* another process holds the lease */
    CKPT_EMISSING = 90,      /* a feature was not built in, or a device is missing */
    CKPT_EVERSION = 91,      /* the store was written by a newer version */
    CKPT_EIO = 100,          /* input or output failed: permission, device, read-only file system */
    CKPT_ENOMEM = 101,       /* memory is exhausted */
    CKPT_EBUG = 700,         /* an internal contradiction; please report */
    CKPT_EINTERRUPTED = 1300 /* stopped by a signal or by the caller's callback */
};

/* A full account of one failure; 1024 bytes, owned by the caller, no pointers inside.
 * `message` is one line without a full stop: "save epoch_12.pt: write pack: no space left on device".
 * `where` is the file or store concerned, `hint` says what to do next; both may be empty. */
typedef struct ckpt_error {
    int code;
    int sys_errno; /* errno of the failed system call, or 0 */
    char where[120];
    char message[640];
    char hint[256];
} ckpt_error;

/* The name of a code as a word ("damaged", "not found", ...), for logs. Never NULL. */
CKPT_API const char *ckpt_error_name(int code);

/* The exit status a program should end with for `code`: code / 10, and 70 for a number not in the list. */
CKPT_API int ckpt_error_exit_status(int code);

#ifdef __cplusplus
}
#endif
#endif

#include "npy_head.h"

#include "checked.h"
#include "fail.h"

#include <string.h>

#define DESCR_SIZE   4 /* "<i8" */
#define UNKNOWN_HEAD "%s: header is not as NumPy writes it, or not of plain numbers"

static const char MAGIC[] = "\x93NUMPY";

int npy_head_start(size_t *length_size, const unsigned char start[NPY_HEAD_START], const char *name, ckpt_error *err)
{
    int rc = 0;
    const unsigned major = start[sizeof MAGIC - 1], minor = start[sizeof MAGIC];

    FAIL_IF(memcmp(start, MAGIC, sizeof MAGIC - 1) != 0, err, CKPT_EFORMAT, "%s: is no .npy array", name);
    FAIL_IF(major < 1 || major > 2 || minor > 0, err, CKPT_EFORMAT, "%s: version %u.%u of .npy is unknown", name, major,
            minor);
    *length_size = major == 1 ? 2 : 4;
out:
    return rc;
}

static void skip_blanks(const char **at)
{
    *at += strspn(*at, " ");
}

/* Takes `token` if it comes next. */
static bool take(const char **at, const char *token)
{
    skip_blanks(at);
    if (strncmp(*at, token, strlen(token)) != 0)
        return false;
    *at += strlen(token);
    return true;
}

/* '<i8': byte order, kind, size */
static bool take_descr(char descr[DESCR_SIZE], const char **at)
{
    if (!take(at, "'") || strcspn(*at, "'") != DESCR_SIZE - 1)
        return false;
    memcpy(descr, *at, DESCR_SIZE - 1);
    descr[DESCR_SIZE - 1] = 0;
    *at += DESCR_SIZE - 1;
    return take(at, "'");
}

static bool take_count(uint64_t *out, const char **at)
{
    skip_blanks(at);
    const char *const begin = *at;

    *out = 0;
    for (; **at >= '0' && **at <= '9'; ++*at)
        if (!checked_mul(out, *out, 10) || !checked_add(out, *out, (uint64_t)(**at - '0')))
            return false;
    return *at > begin;
}

/* (20,) or (20, 28, 28) */
static bool take_shape(npy_head *out, const char **at)
{
    if (!take(at, "("))
        return false;
    while (!take(at, ")")) {
        if (out->rank == NPY_HEAD_RANK_MAX || !take_count(&out->shape[out->rank], at))
            return false;
        out->rank++;
        if (!take(at, ",") && **at != ')')
            return false;
    }
    return true;
}

static int element_type(npy_head *out, const char descr[DESCR_SIZE], const char *name, ckpt_error *err)
{
    int rc = 0;

    out->big_endian = descr[0] == '>';
    out->kind = descr[1];
    out->item_size = (unsigned)(descr[2] - '0');
    FAIL_IF(!strchr("<>|", descr[0]) || !strchr("iu", descr[1]) || !strchr("1248", descr[2]), err, CKPT_EFORMAT,
            "%s: elements of type '%s' are no integers", name, descr);
    FAIL_IF(descr[0] == '|' && out->item_size > 1, err, CKPT_EFORMAT, "%s: elements have no byte order", name);
out:
    return rc;
}

int npy_head_parse(npy_head *out, const char *text, size_t size, const char *name, ckpt_error *err)
{
    int rc = 0;
    const char *at = text;
    char descr[DESCR_SIZE];

    *out = (npy_head){0};
    const bool begins = strlen(text) == size && take(&at, "{") && take(&at, "'descr'") && take(&at, ":");
    FAIL_IF(!begins || !take_descr(descr, &at), err, CKPT_EFORMAT, UNKNOWN_HEAD, name);
    TRY(element_type(out, descr, name, err));
    const bool goes_on = take(&at, ",") && take(&at, "'fortran_order'") && take(&at, ":");
    if (goes_on && take(&at, "True")) {
        rc = error_set(err, CKPT_EFORMAT, "%s: is in Fortran's order", name);
        error_hint(err, "numpy.ascontiguousarray() gives an array in C's order");
        goto out;
    }
    const bool has_shape = goes_on && take(&at, "False") && take(&at, ",") && take(&at, "'shape'") && take(&at, ":") &&
                           take_shape(out, &at);
    (void)take(&at, ",");
    FAIL_IF(!has_shape || !take(&at, "}") || !take(&at, "\n") || *at, err, CKPT_EFORMAT, UNKNOWN_HEAD, name);
out:
    return rc;
}

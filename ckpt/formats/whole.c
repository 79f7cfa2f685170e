#include "whole.h"

#include "fail.h"
#include "file.h"
#include "json_bounded.h"
#include "tensor_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define JSON_SUFFIX ".json"

void whole_say(whole_verdict *out, ckpt_file_state state, const char *format, ...)
{
    va_list args;

    out->state = state;
    va_start(args, format);
    error_text(out->why, sizeof out->why, format, args);
    va_end(args);
}

static bool is_json(const char *path)
{
    const size_t size = strlen(path), suffix = strlen(JSON_SUFFIX);
    return size > suffix && strcmp(path + size - suffix, JSON_SUFFIX) == 0;
}

/* What is no tensor file may be JSON, which tells too. */
static int json_judge(whole_verdict *out, const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    bool cut_off = false;
    ckpt_error why = {0};
    json_t *root = NULL;
    char *text = NULL;

    if (source->size > WHOLE_JSON_MAX)
        goto out;
    text = malloc((size_t)source->size + 1);
    FAIL_IF_NULL(text, err);
    TRY(source->read(source, text, 0, (size_t)source->size, err));
    rc = json_bounded_load(&root, &cut_off, text, (size_t)source->size, &why);
    if (rc == 0)
        whole_say(out, CKPT_FILE_WHOLE, "%s", "");
    else if (rc == CKPT_EFORMAT)
        whole_say(out, cut_off ? CKPT_FILE_CUT_OFF : CKPT_FILE_UNKNOWN, "JSON: %s", why.message);
    rc = error_pass_own(err, &why);
out:
    json_decref(root);
    free(text);
    return rc;
}

int whole_file(whole_verdict *out, const char *path, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size = 0;
    char why[CKPT_WHY_SIZE];
    byte_source source;
    tensor_file file = {0};

    *out = (whole_verdict){.state = CKPT_FILE_UNKNOWN};
    TRY(file_open(&fd, &size, path, err));
    if (size == 0) {
        whole_say(out, CKPT_FILE_CUT_OFF, "is empty");
        goto out;
    }
    byte_source_fd(&source, fd, size, path);
    TRY(tensor_file_read(&file, why, &source, err));
    if (strcmp(file.format, "opaque") != 0)
        whole_say(out, CKPT_FILE_WHOLE, "%s", "");
    else if (why[0])
        whole_say(out, file.cut_off ? CKPT_FILE_CUT_OFF : CKPT_FILE_UNKNOWN, "%s", why);
    else if (is_json(path))
        TRY(json_judge(out, &source, err));
out:
    tensor_file_clear(&file);
    file_close(&fd);
    return rc;
}

int ckpt_file_check(ckpt_file_state *state, char why[CKPT_WHY_SIZE], const char *path, ckpt_error *err)
{
    int rc = 0;
    struct stat st;
    whole_verdict verdict = {.state = CKPT_FILE_UNKNOWN};

    *state = CKPT_FILE_UNKNOWN;
    if (why)
        why[0] = 0;
    if (stat(path, &st)) {
        rc = error_errno(err, errno, "%s", path);
        error_where(err, path);
        goto out;
    }
    if (S_ISDIR(st.st_mode))
        TRY(whole_folder(&verdict, path, 0, err));
    else
        TRY(whole_file(&verdict, path, err));
    *state = verdict.state;
    if (why)
        memcpy(why, verdict.why, sizeof verdict.why);
out:
    return rc;
}

#include "job_status.h"

#include "fail.h"
#include "hash.h"
#include "json_out.h"

#include <stdlib.h>
#include <string.h>

#define FOLDER_DIGITS 16 /* of the SHA-256 of a subject */

#define STATE_HOME_HINT "XDG_STATE_HOME=/a/folder/that/can/be/written names another place for the state of jobs"

static const char *const STATES[] = {"running", "ended", "failed", "killed"};
#define STATE_COUNT (sizeof STATES / sizeof *STATES)

const char *job_state_name(job_state state)
{
    return STATES[state];
}

static int state_home(char out[FILE_PATH_MAX], ckpt_error *err)
{
    int rc = 0;
    const char *const xdg = getenv("XDG_STATE_HOME"), *const home = getenv("HOME");

    if (xdg && xdg[0] == '/') { /* a relative one is to be ignored, says the XDG base directory specification */
        TRY(path_join(out, xdg, "ckpt/jobs", err));
    } else {
        if (!home || home[0] != '/') {
            rc = error_set(err, CKPT_EUSAGE, "neither XDG_STATE_HOME nor HOME says where jobs are kept");
            error_hint(err, STATE_HOME_HINT);
            goto out;
        }
        TRY(path_join(out, home, ".local/state/ckpt/jobs", err));
    }
out:
    return rc;
}

int job_status_folder(char out[FILE_PATH_MAX], const char *kind, const char *subject, ckpt_error *err)
{
    int rc = 0;
    char home[FILE_PATH_MAX], hex[SHA256_HEX_SIZE], name[JOB_KIND_SIZE + FOLDER_DIGITS + 2];
    sha256 digest;

    FAIL_IF(strlen(kind) >= JOB_KIND_SIZE || strlen(subject) >= FILE_PATH_MAX, err, CKPT_EUSAGE,
            "a job of a name that is too long");
    TRY(state_home(home, err));
    sha256_of(&digest, subject, strlen(subject));
    sha256_hex(hex, &digest);
    snprintf(name, sizeof name, "%s-%.*s", kind, FOLDER_DIGITS, hex);
    TRY(path_join(out, home, name, err));
out:
    return rc;
}

int job_status_folder_make(const char *folder, ckpt_error *err)
{
    const int rc = dir_make_all(folder, err);

    if (rc)
        error_hint(err, STATE_HOME_HINT);
    return rc;
}

/* ---- Out ---- */

static json_t *text_json(const char *text)
{
    return json_out_text(text, strlen(text));
}

static json_t *time_json(int64_t seconds)
{
    return seconds ? json_integer(seconds) : json_null();
}

static int counters_json(json_t *object, const job_status *status, ckpt_error *err)
{
    int rc = 0;
    json_t *const counters = json_object();

    TRY(json_out_set(object, "counters", counters, err));
    for (size_t i = 0; i < status->counter_count; i++)
        TRY(json_out_set(counters, status->counters[i].name, json_out_count(status->counters[i].value), err));
out:
    return rc;
}

json_t *job_status_json(const job_status *status)
{
    int rc = 0;
    json_t *object = json_object();

    TRY(json_out_set(object, "job", text_json(status->kind), NULL));
    TRY(json_out_set(object, "subject", text_json(status->subject), NULL));
    TRY(json_out_set(object, "what", text_json(status->what), NULL));
    TRY(json_out_set(object, "folder", text_json(status->folder), NULL));
    TRY(json_out_set(object, "state", text_json(job_state_name(status->state)), NULL));
    TRY(json_out_set(object, "host", text_json(status->host), NULL));
    TRY(json_out_set(object, "pid", json_out_count(status->pid), NULL));
    TRY(json_out_set(object, "pid_start", json_out_count(status->pid_start), NULL));
    TRY(json_out_set(object, "since", time_json(status->since), NULL));
    TRY(json_out_set(object, "last_success", time_json(status->last_success), NULL));
    TRY(json_out_set(object, "next_round", time_json(status->next_round), NULL));
    TRY(json_out_set(object, "last_error_time", time_json(status->last_error_time), NULL));
    TRY(json_out_set(object, "last_error", status->last_error[0] ? text_json(status->last_error) : json_null(), NULL));
    TRY(counters_json(object, status, NULL));
out:
    if (rc) {
        json_decref(object);
        object = NULL;
    }
    return object;
}

int job_status_write(const job_status *status, const char *folder, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX], *text = NULL;
    json_t *const object = job_status_json(status);

    FAIL_IF_NULL(object, err);
    text = json_dumps(object, JSON_INDENT(2));
    FAIL_IF_NULL(text, err);
    TRY(path_join(path, folder, "status.json", err));
    TRY(file_replace(path, folder, text, strlen(text), err));
out:
    free(text);
    json_decref(object);
    return rc;
}

/* ---- And back ---- */

static void text_get(char *out, size_t size, const json_t *object, const char *key)
{
    const char *const text = json_string_value(json_object_get(object, key));

    snprintf(out, size, "%s", text ? text : "");
}

static int64_t number_get(const json_t *object, const char *key)
{
    const json_int_t value = json_integer_value(json_object_get(object, key));

    return value > 0 ? (int64_t)value : 0;
}

static void counters_get(job_status *out, json_t *object)
{
    const char *name;
    json_t *value;

    json_object_foreach(json_object_get(object, "counters"), name, value)
    {
        if (out->counter_count == JOB_COUNTERS_MAX)
            break;
        job_counter *const counter = &out->counters[out->counter_count++];
        snprintf(counter->name, sizeof counter->name, "%s", name);
        counter->value = json_integer_value(value) > 0 ? (uint64_t)json_integer_value(value) : 0;
    }
}

int job_status_read(job_status *out, const char *folder, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX], *text = NULL, state[JOB_WORD_SIZE];
    size_t size = 0;
    json_t *object = NULL;

    *out = (job_status){0};
    TRY(path_join(path, folder, "status.json", err));
    TRY(file_read_all(&text, &size, path, JOB_STATUS_BYTES_MAX, err));
    object = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    FAIL_IF(!json_is_object(object), err, CKPT_EDATA, "%s is not the status of a job", path);
    text_get(out->kind, sizeof out->kind, object, "job");
    text_get(out->subject, sizeof out->subject, object, "subject");
    text_get(out->what, sizeof out->what, object, "what");
    text_get(out->folder, sizeof out->folder, object, "folder");
    text_get(out->host, sizeof out->host, object, "host");
    text_get(out->last_error, sizeof out->last_error, object, "last_error");
    text_get(state, sizeof state, object, "state");
    out->state = JOB_FAILED;
    for (size_t i = 0; i < STATE_COUNT; i++)
        if (strcmp(state, STATES[i]) == 0)
            out->state = (job_state)i;
    out->pid = (uint64_t)number_get(object, "pid");
    out->pid_start = (uint64_t)number_get(object, "pid_start");
    out->since = number_get(object, "since");
    out->last_success = number_get(object, "last_success");
    out->next_round = number_get(object, "next_round");
    out->last_error_time = number_get(object, "last_error_time");
    counters_get(out, object);
out:
    json_decref(object);
    free(text);
    return rc;
}

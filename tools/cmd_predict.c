#include "model_use.h"

#include "output.h"
#include "print.h"

#include "fail.h"
#include "file.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

static const option OPTIONS[] = {
    {"csv", 0, OPT_TEXT, "FILE", "where to write; - is standard output"},
    MODEL_OPTION_DATA,
    MODEL_OPTION_SAMPLES,
    {"yes", 'y', OPT_FLAG, NULL, "overwrite FILE"},
    {0},
};

#define CSV_LINE_SIZE   96 /* two numbers of 20 digits, one of 16, commas */
#define CSV_BUFFER_SIZE (64u << 10)

/* Rows on their way to a file, which appears under its name when all are in it, or to stdout. */
typedef struct csv {
    const char *path; /* NULL: stdout */
    file_tmp tmp;
    char buffer[CSV_BUFFER_SIZE];
    size_t used;
    uint64_t rows, correct;
} csv;

static int csv_flush(csv *c, ckpt_error *err)
{
    int rc = 0;

    if (c->path)
        TRY(file_tmp_write(&c->tmp, c->buffer, c->used, err));
    else
        fwrite(c->buffer, 1, c->used, stdout); /* main() finds out about failures */
    c->used = 0;
out:
    return rc;
}

static int csv_add(csv *c, const char *line, ckpt_error *err)
{
    int rc = 0;
    const size_t size = strlen(line);

    if (c->used + size > sizeof c->buffer)
        TRY(csv_flush(c, err));
    memcpy(c->buffer + c->used, line, size);
    c->used += size;
out:
    return rc;
}

static int csv_open(csv *c, session *s, const char *path, ckpt_error *err)
{
    int rc = 0;
    char dir[FILE_PATH_MAX], what[FILE_PATH_MAX];
    struct stat st;

    if (strcmp(path, "-") != 0) {
        FAIL_IF(!*path_base(path), err, CKPT_EUSAGE, "predict: --csv names no file");
        if (stat(path, &st) == 0) {
            FAIL_IF(!S_ISREG(st.st_mode), err, CKPT_EUSAGE, "predict: %s is there and is no file", path);
            snprintf(what, sizeof what, "overwrite %s", path);
            TRY(session_confirm(s, what, err));
        }
        TRY(path_parent(dir, path, err));
        TRY(file_tmp_open(&c->tmp, dir, path_base(path), err));
        c->path = path;
    }
    TRY(csv_add(c, "index,class,probability\n", err));
out:
    return rc;
}

static int csv_commit(csv *c, ckpt_error *err)
{
    int rc = 0;
    file_commit_plan plan = {0};

    TRY(csv_flush(c, err));
    if (c->path) {
        TRY(file_commit_add(&plan, &c->tmp, c->path, true, err));
        TRY(file_commit(&plan, err));
    }
out:
    file_commit_discard(&plan);
    return rc;
}

static int on_prediction(void *payload, const ckpt_prediction *p, ckpt_error *err)
{
    csv *const c = payload;
    char line[CSV_LINE_SIZE];

    snprintf(line, sizeof line, "%" PRIu64 ",%u,%.9g\n", p->index, p->class_index, p->probability);
    c->rows++;
    c->correct += p->class_index == p->label;
    return csv_add(c, line, err);
}

static int print_json(const model_use *use, const csv *c, ckpt_error *err)
{
    int rc = 0;
    json_t *const object = json_object();

    TRY(json_out_set(object, "name", print_json_text(use->name), err));
    TRY(json_out_set(object, "samples", print_json_text(use->samples_name), err));
    TRY(json_out_set(object, "csv", print_json_text(c->path), err));
    TRY(json_out_set(object, "rows", json_out_count(c->rows), err));
    TRY(json_out_set(object, "correct", json_out_count(c->correct), err));
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

static int report(const model_use *use, const csv *c, ckpt_error *err)
{
    char rows[UNITS_TEXT_SIZE], share[UNITS_TEXT_SIZE];

    if (!c->path)
        return 0; /* the rows are the answer */
    if (use->s->json)
        return print_json(use, c, err);
    if (!use->s->quiet) {
        printf("%s in ", print_count(rows, c->rows, "row"));
        output_text(stdout, c->path);
        printf(", %s as labelled\n", print_percent(share, c->correct, c->rows));
    }
    return 0;
}

static int cmd_predict(session *s, ckpt_error *err)
{
    int rc = 0;
    model_use use = {0};
    csv c = {.tmp.fd = -1};
    const char *const path = arguments_text(&s->args, "csv");

    if (!path) {
        rc = error_set(err, CKPT_EUSAGE, "predict: --csv is missing: where to write");
        error_hint(err, "--csv FILE, or --csv - for standard output");
        goto out;
    }
    TRY(model_use_open(&use, s, err));
    TRY(csv_open(&c, s, path, err));
    rc = use.plugin.model_predict(use.model, use.samples, on_prediction, &c, err);
    session_work_end(s);
    TRY(rc);
    TRY(csv_commit(&c, err));
    TRY(report(&use, &c, err));
out:
    file_tmp_discard(&c.tmp);
    model_use_close(&use);
    return rc;
}

const command CMD_PREDICT = {
    .name = "predict",
    .args = "[NAME]",
    .summary = "Write what a trained network says of each sample",
    .about = "NAME is a checkpoint of a training, `latest` without one, or a restored file. The file begins with the "
             "line `index,class,probability`; a row follows for each sample, in the order of the data set: its "
             "number from 0, the class, and how probable the network holds it. The file appears when it is complete.",
    .examples = "ckpt predict best --csv test.csv\tthe test samples\n"
                "ckpt predict --csv - --samples train | head\tto look at\n",
    .options = OPTIONS,
    .exits = EXITS(0, 2, 3, 4, 5, 9, 10, 130),
    .words_max = 1,
    .group = GROUP_TRAINING,
    .completes = COMPLETES_NAMES_AND_PATHS,
    .run = cmd_predict,
};

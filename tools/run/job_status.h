/* The status file of a job: job_status as JSON, and back. */
#ifndef RUN_JOB_STATUS_H
#define RUN_JOB_STATUS_H

#include "job.h"

/* The folder of a job, which need not exist. CKPT_EUSAGE where neither XDG_STATE_HOME nor HOME is set. */
int job_status_folder(char out[FILE_PATH_MAX], const char *kind, const char *subject, ckpt_error *err);
/* Makes it; where that fails, a hint says how to have it elsewhere. */
int job_status_folder_make(const char *folder, ckpt_error *err);

int job_status_write(const job_status *status, const char *folder, ckpt_error *err);
/* CKPT_ENOTFOUND without one, CKPT_EDATA when it is none. Fields that are missing are 0. */
int job_status_read(job_status *out, const char *folder, ckpt_error *err);

#endif

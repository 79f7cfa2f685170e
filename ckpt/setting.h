/* Settings: keys of config.ini that commands and features write. */
#ifndef CKPT_SETTING_H
#define CKPT_SETTING_H

#include "store_internal.h"

#define SETTING_PARITY "parity"
#define SETTING_QUOTA  "quota"

/* The share of parity that saves write, from 0 (none) to 1, as config.ini has it. */
int setting_parity(double *share, const ckpt_store *store, ckpt_error *err);

/* What the store may take; 0: as much as there is. */
int setting_quota(uint64_t *bytes, const ckpt_store *store, ckpt_error *err);

#endif

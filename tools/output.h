/* Output: what goes to stdout and stderr, made safe to show, and checked to have arrived. */
#ifndef TOOLS_OUTPUT_H
#define TOOLS_OUTPUT_H

#include <ckpt/error.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Call first: descriptors 0 to 2 are open afterwards, so that no file of a store can become one of them, and a closed
 * pipe is an error of a write, not the death of a save. */
void output_open(void);

/* Flushes and closes stdout. A full disk or a broken device is an error; a reader that went away (`| head`) is not. */
int output_close(ckpt_error *err);

/* Writes text that came from outside, made safe to show; see visible.h. */
void output_text(FILE *out, const char *text);

#endif

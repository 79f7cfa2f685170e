/* Whole: has the program that writes a file or a folder come to its end with it? Told by the structure of what stands
 * there, never by times.
 *
 *   file      as its parser says; JSON by whether the text ends
 *   folder    no file in it is cut off, and the parts that it speaks of are there:
 *             NAME.index.json    every shard of its weight_map
 *             NAME.distcp        `.metadata` beside it, and every part that this names inside of its file
 *             checkpoint-N       with the files of a Hugging Face trainer: trainer_state.json, which is written last */
#ifndef CKPT_WHOLE_H
#define CKPT_WHOLE_H

#include <ckpt/store.h>

#define WHOLE_DEPTH_MAX   128
#define WHOLE_ENTRIES_MAX (1u << 20) /* of one folder */
#define WHOLE_JSON_MAX    ((size_t)64 << 20)

typedef struct whole_verdict {
    ckpt_file_state state;
    char why[CKPT_WHY_SIZE]; /* what is missing, one line; "" when whole */
} whole_verdict;

int whole_file(whole_verdict *out, const char *path, ckpt_error *err);
int whole_folder(whole_verdict *out, const char *path, unsigned depth, ckpt_error *err);
/* Sets the state and why; the text is cut between characters. */
void whole_say(whole_verdict *out, ckpt_file_state state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

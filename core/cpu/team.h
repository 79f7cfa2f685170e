/* Team: the threads of OpenMP, as our own passes use them.
 *
 * They are those of oneDNN, so that a step never has more threads than asked for. What a pass computes for one unit
 * does not depend on which thread does it, and so results do not depend on the number of threads. */
#ifndef CORE_TEAM_H
#define CORE_TEAM_H

#include <stddef.h>

/* Units begin to end - 1 of `job`. */
typedef void (*team_fn)(void *job, size_t begin, size_t end);

/* All of `count` units on at most `threads` threads, each of which gets one range; ranges begin at multiples of
 * `grain`, below which dividing does not pay. */
void team_run(unsigned threads, team_fn run, void *job, size_t count, size_t grain);

/* Libraries take as many threads as the calling thread's settings say: these set and restore them. */
typedef struct team_settings {
    int threads, dynamic;
} team_settings;
team_settings team_enter(unsigned threads);
void team_leave(team_settings before);

#endif

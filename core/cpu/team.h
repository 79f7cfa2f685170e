/* Team: the threads of OpenMP, as our own passes use them.
 *
 * They are those of oneDNN, so that a step never has more threads than asked for. What a pass computes for one unit
 * does not depend on which thread does it, and so results do not depend on the number of threads. */
#ifndef CORE_TEAM_H
#define CORE_TEAM_H

#include <ckpt/error.h>
#include <stddef.h>

/* Of how many threads a team is when `asked` are wanted; 0: as many as the machine allows this process; fewer
 * where OpenMP gives no more (OMP_THREAD_LIMIT), since who counts on the others waits for ever. CKPT_EUSAGE for more
 * than POOL_THREADS_MAX (pool.h). */
int team_threads(unsigned *threads, unsigned asked, ckpt_error *err);

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

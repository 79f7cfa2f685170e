/* Processes of this machine, told apart from later ones that got the same number. */
#ifndef RUN_PROCESS_H
#define RUN_PROCESS_H

#include <stdint.h>

/* When a process began, in ticks since the machine did: field 22 of /proc/PID/stat, see proc(5). 0: there is no such
 * process, or it has ended and nobody has asked for its status. */
uint64_t process_start(uint64_t pid);

#endif

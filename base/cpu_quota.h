/* How many CPUs the control group of this process may use. Containers limit time rather than which CPUs: a notebook on
 * a machine with 96 CPUs may have the time of two. */
#ifndef BASE_CPU_QUOTA_H
#define BASE_CPU_QUOTA_H

/* Rounded up; 0: no limit, or none that can be found out. Version 2 (cpu.max) and version 1 (cpu.cfs_quota_us) are
 * read, the smallest limit from the own group up to the root counts. `own` is /proc/self/cgroup and `root` is
 * /sys/fs/cgroup, but for tests. */
unsigned cpu_quota(const char *own, const char *root);

#endif

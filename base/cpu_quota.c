#include "cpu_quota.h"

#include "file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OWN_SIZE_MAX   65536 /* of /proc/self/cgroup */
#define LIMIT_SIZE_MAX 256   /* of one file with a limit */
#define CPUS_MAX       65536 /* more is not believed */

/* A positive number at the beginning of text; *rest is what follows. */
static bool number_parse(unsigned long long *value, const char *text, char **rest)
{
    errno = 0;
    *value = strtoull(text, rest, 10);
    return text[0] >= '0' && text[0] <= '9' && errno == 0 && *value > 0;
}

static unsigned cpus_from(unsigned long long quota_us, unsigned long long period_us)
{
    const unsigned long long cpus = quota_us / period_us + (quota_us % period_us != 0);
    return cpus <= CPUS_MAX ? (unsigned)cpus : 0;
}

static char *limit_read(const char *dir, const char *name)
{
    char path[FILE_PATH_MAX], *text = NULL;
    size_t size;

    if (path_join(path, dir, name, NULL) || file_read_all(&text, &size, path, LIMIT_SIZE_MAX, NULL))
        return NULL;
    return text;
}

/* cpu.max: "150000 100000\n", or "max 100000\n" */
static unsigned limit_v2(const char *dir)
{
    unsigned long long quota_us, period_us;
    unsigned cpus = 0;
    char *const text = limit_read(dir, "cpu.max"), *rest;

    if (text && number_parse(&quota_us, text, &rest) && *rest == ' ' && number_parse(&period_us, rest + 1, &rest))
        cpus = cpus_from(quota_us, period_us);
    free(text);
    return cpus;
}

/* cpu.cfs_quota_us: "150000\n", or "-1\n"; cpu.cfs_period_us: "100000\n" */
static unsigned limit_v1(const char *dir)
{
    unsigned long long quota_us, period_us;
    unsigned cpus = 0;
    char *const quota = limit_read(dir, "cpu.cfs_quota_us"), *const period = limit_read(dir, "cpu.cfs_period_us"),
                *rest;

    if (quota && period && number_parse(&quota_us, quota, &rest) && number_parse(&period_us, period, &rest))
        cpus = cpus_from(quota_us, period_us);
    free(period);
    free(quota);
    return cpus;
}

static unsigned limit_smaller(unsigned a, unsigned b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The smallest limit of mount/group and all above it. A container often sees the path of its group as the host names
 * it, while its own group is mounted at the root: what is not there counts as no limit on the way up. */
static unsigned limit_chain(const char *mount, const char *group, unsigned (*limit)(const char *dir))
{
    const size_t mount_size = strlen(mount);
    char dir[FILE_PATH_MAX];
    unsigned cpus = 0;

    if (strstr(group, "/..") || path_join(dir, mount, group + 1, NULL)) /* "/../x": outside of what is mounted here */
        return limit(mount);
    while (strlen(dir) > mount_size) {
        cpus = limit_smaller(cpus, limit(dir));
        if (path_parent(dir, dir, NULL))
            break;
    }
    return limit_smaller(cpus, limit(mount));
}

static bool list_has(const char *list, const char *word)
{
    const size_t size = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, size) == 0 && (at[size] == ',' || at[size] == '\0'))
            return true;
    }
    return false;
}

/* One line "hierarchy:controllers:/group"; version 2 is hierarchy 0 without controllers. */
static unsigned limit_line(char *line, const char *root)
{
    char mount[FILE_PATH_MAX];
    char *const controllers = strchr(line, ':');
    char *const group = controllers ? strchr(controllers + 1, ':') : NULL;

    if (!group || group[1] != '/')
        return 0;
    *group = '\0';
    if (strcmp(line, "0:") == 0)
        return limit_chain(root, group + 1, limit_v2);
    if (!list_has(controllers + 1, "cpu") || path_join(mount, root, "cpu", NULL))
        return 0;
    return limit_chain(mount, group + 1, limit_v1); /* "cpu" is there as a link even where it is "cpu,cpuacct" */
}

unsigned cpu_quota(const char *own, const char *root)
{
    char *text = NULL, *end;
    size_t size;
    unsigned cpus = 0;

    if (file_read_all(&text, &size, own, OWN_SIZE_MAX, NULL))
        return 0;
    for (char *line = text; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        cpus = limit_smaller(cpus, limit_line(line, root));
    }
    free(text);
    return cpus;
}

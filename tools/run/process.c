#include "process.h"

#include "units.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STAT_SIZE_MAX     1024
#define FIELDS_TO_START   19 /* from field 3, the state, to field 22 */
#define STAT_PATH_SIZE    64
#define STATE_OF_A_ZOMBIE 'Z'

uint64_t process_start(uint64_t pid)
{
    char path[STAT_PATH_SIZE], text[STAT_SIZE_MAX + 1];
    uint64_t ticks = 0;

    snprintf(path, sizeof path, "/proc/%" PRIu64 "/stat", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    const ssize_t size = read(fd, text, STAT_SIZE_MAX);
    close(fd);
    text[size > 0 ? size : 0] = 0;
    /* Field 2 is the name of the program in brackets, which may hold blanks and brackets of its own. */
    const char *field = strrchr(text, ')');
    if (!field || field[1] != ' ' || field[2] == STATE_OF_A_ZOMBIE)
        return 0;
    field += 2;
    for (int i = 0; field && i < FIELDS_TO_START; i++) {
        field = strchr(field, ' ');
        field = field ? field + 1 : NULL;
    }
    if (!field)
        return 0;
    char *const end = strchr(field, ' ');
    if (!end)
        return 0;
    *end = 0;
    return parse_u64(&ticks, field, NULL) ? 0 : ticks;
}

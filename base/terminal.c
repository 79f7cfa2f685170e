#include "terminal.h"

#include <sys/ioctl.h>

size_t terminal_columns(FILE *out)
{
    struct winsize size;
    return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

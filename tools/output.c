#include "output.h"

#include "fail.h"
#include "visible.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_BUFFER_SIZE (1u << 16)

void output_open(void)
{
    static char buffer[OUTPUT_BUFFER_SIZE];

    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            /* Opened the wrong way round, so that its use fails as that of a closed one does. */
            int opened = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
            (void)opened; /* the lowest free number is fd */
        }
    signal(SIGPIPE, SIG_IGN);
    if (!isatty(STDOUT_FILENO))
        setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
}

/* A pipe or socket whose other end is closed. */
static bool reader_is_gone(int fd)
{
    struct pollfd poller = {.fd = fd, .events = POLLOUT};
    return poll(&poller, 1, 0) > 0 && (poller.revents & (POLLERR | POLLHUP));
}

int output_close(ckpt_error *err)
{
    bool failed_before = ferror(stdout);
    bool gone = reader_is_gone(STDOUT_FILENO);

    errno = 0;
    if (fclose(stdout) == 0 && !failed_before)
        return 0;
    if (gone || errno == EPIPE)
        return 0;
    const int rc = error_errno(err, errno ? errno : EIO, "write output");
    if (rc == CKPT_ENOSPC && err) /* that disk is not the store's */
        snprintf(err->hint, sizeof(err->hint), "the command is done; only its output was lost");
    return rc;
}

void output_text(FILE *out, const char *text)
{
    char *visible = visible_text(NULL, text, strlen(text));
    fputs(visible ? visible : "(no memory)", out);
    free(visible);
}

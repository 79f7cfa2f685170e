#include "output.h"

#include "fail.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
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
    return error_errno(err, errno ? errno : EIO, "write output");
}

/* Bytes of the UTF-8 character at `text` when it may be shown as it is; 0 when not. Lead bytes that begin overlong
 * forms or code points above U+10FFFF are not let through; terminals handle the rest. */
static size_t shown_size(const unsigned char *text)
{
    unsigned char lead = text[0];
    size_t size = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;

    if (size == 1)
        return lead >= 0x20 && lead != 0x7F;
    if (lead == 0xC2 && text[1] < 0xA0)
        return 0; /* C1 controls */
    for (size_t i = 1; i < size; i++)
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    return size;
}

void output_text(FILE *out, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    while (*p) {
        size_t size = shown_size(p);
        if (size)
            fwrite(p, 1, size, out);
        else if (*p == '\n' || *p == '\t')
            fputs(*p == '\n' ? "\\n" : "\\t", out);
        else
            fprintf(out, "\\x%02x", *p);
        p += size ? size : 1;
    }
}

#define _GNU_SOURCE /* environ */
#include "bench.h"

#include "fail.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct bench_peer {
    pid_t pid;
    FILE *to, *from;
};

int bench_peer_open(bench_peer **out, const char *folder, ckpt_error *err)
{
    int rc = 0, to[2] = {-1, -1}, from[2] = {-1, -1};
    char python[FILE_PATH_MAX], script[FILE_PATH_MAX];
    bench_peer *peer = NULL;
    posix_spawn_file_actions_t actions;

    *out = NULL;
    posix_spawn_file_actions_init(&actions);
    TRY(path_join(python, folder, "venv/bin/python", err));
    TRY(path_join(script, folder, "peers.py", err));
    if (access(python, X_OK) || access(script, R_OK))
        goto out;
    peer = calloc(1, sizeof *peer);
    FAIL_IF_NULL(peer, err);
    if (pipe(to) || pipe(from)) {
        rc = error_errno(err, errno, "make a pipe");
        goto out;
    }
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    for (int i = 0; i < 2; i++) {
        posix_spawn_file_actions_addclose(&actions, to[i]);
        posix_spawn_file_actions_addclose(&actions, from[i]);
    }
    char *const words[] = {python, script, NULL};
    const int failed = posix_spawn(&peer->pid, python, &actions, NULL, words, environ);
    if (failed) {
        rc = error_errno(err, failed, "start %s", python);
        goto out;
    }
    peer->to = fdopen(to[1], "w");
    FAIL_IF_NULL(peer->to, err);
    to[1] = -1; /* the stream's, which closes it */
    peer->from = fdopen(from[0], "r");
    FAIL_IF_NULL(peer->from, err);
    from[0] = -1;
    *out = peer;
    peer = NULL;
out:
    posix_spawn_file_actions_destroy(&actions);
    for (int i = 0; i < 2; i++) {
        if (to[i] >= 0)
            close(to[i]);
        if (from[i] >= 0)
            close(from[i]);
    }
    bench_peer_close(peer);
    return rc;
}

static int answer_read(char text[BENCH_ANSWER_MAX], bench_peer *peer, const char *request, ckpt_error *err)
{
    int rc = 0;

    const bool answered =
        fputc('\n', peer->to) != EOF && fflush(peer->to) == 0 && fgets(text, BENCH_ANSWER_MAX, peer->from);
    TRY(bench_check(err));
    FAIL_IF(!answered, err, CKPT_EIO, "the peers' process ended");
    text[strcspn(text, "\n")] = 0;
    FAIL_IF(strncmp(text, "ok", 2) != 0, err, CKPT_EIO, "the peers' process could not %s: %s", request, text);
out:
    return rc;
}

int bench_peer_ask(double *numbers, size_t max, bench_peer *peer, ckpt_error *err, const char *request, ...)
{
    int rc = 0;
    char text[BENCH_ANSWER_MAX];
    va_list values;

    va_start(values, request);
    vfprintf(peer->to, request, values);
    va_end(values);
    TRY(answer_read(text, peer, "answer", err));
    char *at = text + 2;
    for (size_t i = 0; i < max; i++) {
        char *end = NULL;
        numbers[i] = strtod(at, &end);
        FAIL_IF(end == at, err, CKPT_EIO, "the peers' process answered '%s'", text);
        at = end;
    }
out:
    return rc;
}

int bench_peer_text(char text[BENCH_ANSWER_MAX], bench_peer *peer, const char *request, ckpt_error *err)
{
    int rc = 0;

    fputs(request, peer->to);
    TRY(answer_read(text, peer, request, err));
    memmove(text, text + 2, strlen(text + 2) + 1);
out:
    return rc;
}

void bench_peer_close(bench_peer *peer)
{
    if (!peer)
        return;
    if (peer->to)
        fclose(peer->to);
    if (peer->from)
        fclose(peer->from);
    if (peer->pid > 0) {
        kill(peer->pid, SIGTERM); /* it may be at work on what nobody waits for any more */
        while (waitpid(peer->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    free(peer);
}

/* Runs a program and prints the peak of its memory in bytes: peak_memory PROGRAM ARGUMENT...
 *
 * Its own, small program, because the peak of a process begins with that of its parent at the fork. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int status = 0;
    struct rusage usage;

    if (argc < 2)
        return 2;
    const pid_t child = fork();
    if (child == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO); /* stdout is for the figure */
        execv(argv[1], argv + 1);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &usage) != child)
        return 1;
    printf("%lld\n", usage.ru_maxrss * 1024LL);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

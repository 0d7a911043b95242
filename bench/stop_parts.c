/* Stops a thread of a child as the burst tracer does, and prints how long each part takes, in microseconds.
 *
 * stop_parts near|far spin|chase STOPS
 *   near, far     the tracer sleeps on the CPU of the thread, or on another one
 *   spin, chase   the thread counts in a register, or walks 256 MiB at random: then all that we need is cold at a stop
 * One line per part: name, median, 90th percentile. What is not here: translating, records, the choice of a thread.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST = 10000, PARTS = 11, PTRACE_SYSEMU_REQUEST = 31 };
static double took[PARTS][LONGEST];
static const char *names[PARTS];
static int round_number;

static double clock_us(clockid_t of)
{
    struct timespec now;
    clock_gettime(of, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static double part(int number, const char *name, double since)
{
    double now = clock_us(CLOCK_MONOTONIC);
    names[number] = name;
    took[number][round_number] = now - since;
    return clock_us(CLOCK_MONOTONIC);
}

static void stay_on(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void work(int chases)
{
    volatile unsigned long count = 0;
    size_t lines = (256 << 20) / 64;
    char *memory = chases ? malloc(lines * 64) : NULL;
    if (memory)
        memset(memory, 1, lines * 64);
    for (unsigned long at = 1;; count++) {
        at = at * 6364136223846793005ul + 1442695040888963407ul;
        if (memory)
            at += memory[(at >> 33) % lines * 64];
    }
}

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    int is_near = !strcmp(words[1], "near"), chases = !strcmp(words[2], "chase"), stops = atoi(words[3]);
    if (stops < 1 || stops > LONGEST)
        return 2;
    pid_t child = fork();
    if (!child) {
        stay_on(0);
        work(chases);
    }
    stay_on(is_near ? 0 : 1);
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", child);
    int status_file = open(path, O_RDONLY);
    snprintf(path, sizeof path, "/proc/%d/schedstat", child);
    int clock_file = open(path, O_RDONLY);
    usleep(500000);
    for (round_number = 0; round_number < stops; round_number++) {
        struct user_regs_struct registers;
        int status;
        usleep(10000);
        double cpu = clock_us(CLOCK_THREAD_CPUTIME_ID), at = clock_us(CLOCK_MONOTONIC);
        (void)!pread(status_file, text, sizeof text, 0);
        at = part(0, "looking whether it may be stopped", at);
        ptrace(PTRACE_SEIZE, child, 0, PTRACE_O_TRACESYSGOOD);
        double asked = at = part(1, "seize", at);
        ptrace(PTRACE_INTERRUPT, child, 0, 0);
        waitpid(child, &status, __WALL);
        at = part(2, "until it stands still", at);
        ptrace(PTRACE_GETREGS, child, 0, &registers);
        (void)!pread(clock_file, text, sizeof text, 0);
        at = part(3, "registers and clock", at);
        ptrace(PTRACE_SETREGS, child, 0, &registers);
        ptrace(PTRACE_SYSEMU_REQUEST, child, 0, 0);
        at = part(4, "letting it go", at);
        part(5, "stood still for the first stop", asked);
        usleep(30);
        asked = at = clock_us(CLOCK_MONOTONIC);
        ptrace(PTRACE_INTERRUPT, child, 0, 0);
        waitpid(child, &status, __WALL);
        at = part(6, "until it stands still again", at);
        ptrace(PTRACE_GETREGS, child, 0, &registers);
        (void)!pread(clock_file, text, sizeof text, 0);
        at = part(7, "registers and clock again", at);
        ptrace(PTRACE_SETREGS, child, 0, &registers);
        ptrace(PTRACE_DETACH, child, 0, 0);
        part(8, "detach", at);
        part(9, "stood still for the second stop", asked);
        names[10] = "CPU time of the tracer";
        took[10][round_number] = clock_us(CLOCK_THREAD_CPUTIME_ID) - cpu;
    }
    kill(child, SIGKILL);
    for (int number = 0; number < PARTS; number++) {
        qsort(took[number], stops, sizeof *took[number], rising);
        printf("%s|%.1f|%.1f\n", names[number], took[number][stops / 2], took[number][stops * 9 / 10]);
    }
    return 0;
}

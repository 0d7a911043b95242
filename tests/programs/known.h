/*
 * What the test targets share: options, clocks, counters. One target per behaviour, its known answer printed
 * by itself as `key=value` lines, the last line EXIT-SUCCESS (its absence tells a test that the target was cut
 * short). Nothing here allocates on the heap. Exit codes: 0 done, 1 cannot do it here (said on standard
 * error), 2 usage.
 */
#ifndef KNOWN_H
#define KNOWN_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Keeps functions apart: not inlined, not cloned, not analysed by their callers. */
#define SEPARATE __attribute__((noinline, noclone))

enum { MEGA = 1000000, PAGE = 4096 };

struct known_option {
    const char *name; /* "--ms" */
    long *value;      /* holds the default */
    long lowest, highest; /* both 1: an option without a value */
};

static inline void known_usage(const char *program, const struct known_option *options, int count)
{
    fprintf(stderr, "usage: %s", program);
    for (int row = 0; row < count; row++) {
        const struct known_option *option = &options[row];
        if (option->lowest == option->highest)
            fprintf(stderr, " [%s]", option->name);
        else
            fprintf(stderr, " [%s %ld..%ld, now %ld]", option->name, option->lowest, option->highest, *option->value);
    }
    fputc('\n', stderr);
    exit(2);
}

/* Reads the options into their values; anything else is exit code 2. */
static inline void known_options(int argc, char **argv, const struct known_option *options, int count)
{
    static char buffer[BUFSIZ];
    setvbuf(stdout, buffer, _IOLBF, sizeof buffer);
    for (int index = 1; index < argc; index++) {
        int row = 0;
        while (row < count && strcmp(argv[index], options[row].name) != 0)
            row++;
        if (row == count)
            known_usage(argv[0], options, count);
        long value = 1;
        if (options[row].lowest != options[row].highest) {
            char *end = NULL;
            if (++index == argc)
                known_usage(argv[0], options, count);
            errno = 0;
            value = strtol(argv[index], &end, 10);
            if (errno != 0 || end == argv[index] || *end != '\0')
                known_usage(argv[0], options, count);
        }
        if (value < options[row].lowest || value > options[row].highest)
            known_usage(argv[0], options, count);
        *options[row].value = value;
    }
}

/* For a target with the one option --ms. */
static inline long known_milliseconds(int argc, char **argv, long fallback)
{
    long ms = fallback;
    known_options(argc, argv, &(struct known_option){"--ms", &ms, 0, 3600000}, 1);
    return ms;
}

__attribute__((noreturn)) static inline void known_impossible(const char *what)
{
    fprintf(stderr, "cannot %s: %s\n", what, strerror(errno));
    exit(1);
}

static inline int64_t known_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* CPU time in nanoseconds: user and kernel; of the calling thread, and of the process with its ended threads. */
static inline int64_t thread_cpu_ns(void) { return known_clock(CLOCK_THREAD_CPUTIME_ID); }
static inline int64_t process_cpu_ns(void) { return known_clock(CLOCK_PROCESS_CPUTIME_ID); }

struct known_faults {
    long minor, major;
};

static inline struct known_faults known_faults_now(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (struct known_faults){usage.ru_minflt, usage.ru_majflt};
}

/* The whole-process facts, measured as late as the target can, and the last line. */
static inline void known_end(void)
{
    struct known_faults faults = known_faults_now();
    printf("process_minor_faults=%ld\nprocess_major_faults=%ld\n", faults.minor, faults.major);
    printf("process_cpu_ns=%lld\nEXIT-SUCCESS\n", (long long)process_cpu_ns());
    fflush(stdout);
}

#endif

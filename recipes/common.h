/*
 * What all recipe programs share: reading arguments, reading the clock, printing results.
 *
 * Every program prints `key=value` lines: loop_seconds (CLOCK_MONOTONIC around the measured loop only,
 * not around allocation and initialisation), a rate, and a checksum with `verified=yes`.
 * Exit codes: 0 done and verified; 1 out of memory, no pool, wrong result; 2 usage.
 *
 * Nothing here allocates on the heap (standard output has a static buffer), so that the heap totals that
 * a profiler shows are those of the program's own arrays.
 */
#ifndef RECIPES_COMMON_H
#define RECIPES_COMMON_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One command-line option. Exactly one of `number` and `text` is set; the pointed-to value is the default. */
struct argument {
    const char *name; /* with its dashes, e.g. "--elements" */
    const char *help; /* one line, without the default: it is printed from the value */
    size_t *number;
    size_t lowest, highest; /* accepted range of `number`, both included */
    const char **text;
};

static const char *program_name = "recipe";

/* Says on standard error why the program cannot go on, and ends it with exit code 1. */
__attribute__((noreturn, format(printf, 1, 2))) static inline void fail(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fflush(stdout);
    fprintf(stderr, "%s: ", program_name);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    exit(1);
}

static inline void print_usage(FILE *stream, const char *summary, const struct argument *table, size_t rows)
{
    fprintf(stream, "%s\n\nUsage: %s [OPTIONS]\n\n", summary, program_name);
    for (size_t row = 0; row < rows; row++) {
        const struct argument *argument = &table[row];
        fprintf(stream, "  %-10s %-6s %s", argument->name, argument->number ? "N" : "TEXT", argument->help);
        if (argument->number)
            fprintf(stream, " (default %zu)\n", *argument->number);
        else
            fprintf(stream, "%s%s%s\n", *argument->text ? " (default " : "", *argument->text ? *argument->text : "",
                    *argument->text ? ")" : "");
    }
    fprintf(stream, "  --help            this text\n");
}

/* Stores one value; returns false when it is not a whole number in the option's range. */
static inline bool store_argument(const struct argument *argument, const char *value)
{
    if (argument->text) {
        *argument->text = value;
        return *value != '\0';
    }
    /* strtoull would take "-1" and leading blanks: only digits are a count. */
    if (*value < '0' || *value > '9')
        return false;
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (errno != 0 || *end != '\0' || number < argument->lowest || number > argument->highest)
        return false;
    *argument->number = (size_t)number;
    return true;
}

/* Reads `--name VALUE` and `--name=VALUE` into the table. Bad usage ends the program with exit code 2. */
static inline void read_arguments(int argc, char **argv, const char *summary, const struct argument *table,
                                  size_t rows)
{
    static char output_buffer[BUFSIZ];
    setvbuf(stdout, output_buffer, _IOLBF, sizeof output_buffer);
    const char *slash = strrchr(argv[0], '/');
    program_name = slash ? slash + 1 : argv[0];
    for (int index = 1; index < argc; index++) {
        if (strcmp(argv[index], "--help") == 0) {
            print_usage(stdout, summary, table, rows);
            exit(0);
        }
        const char *equals = strchr(argv[index], '=');
        size_t length = equals ? (size_t)(equals - argv[index]) : strlen(argv[index]);
        const struct argument *found = NULL;
        for (size_t row = 0; row < rows && !found; row++)
            if (strlen(table[row].name) == length && strncmp(table[row].name, argv[index], length) == 0)
                found = &table[row];
        const char *given = argv[index];
        const char *value = equals ? equals + 1 : found && index + 1 < argc ? argv[++index] : NULL;
        if (!found)
            fprintf(stderr, "%s: unknown argument %s\n", program_name, given);
        else if (!value)
            fprintf(stderr, "%s: %s needs a value\n", program_name, found->name);
        else if (store_argument(found, value))
            continue;
        else if (found->number)
            fprintf(stderr, "%s: %s takes a whole number from %zu to %zu, not '%s'\n", program_name, found->name,
                    found->lowest, found->highest, value);
        else
            fprintf(stderr, "%s: %s needs a text that is not empty\n", program_name, found->name);
        print_usage(stderr, summary, table, rows);
        exit(2);
    }
}

/* Seconds since an arbitrary start; never goes back. */
static inline double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif

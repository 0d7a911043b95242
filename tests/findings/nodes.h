/* What the programs about NUMA nodes share: a thread that stays on a node. */
#pragma once
#define _GNU_SOURCE /* sched_setaffinity */
#include "finding.h"
#include <sched.h>

/* Binds the calling thread to the first CPU of a node. */
static inline void stay_on(int node) {
    char name[64];
    snprintf(name, sizeof name, "/sys/devices/system/node/node%d/cpulist", node);
    FILE *list = fopen(name, "r");
    int cpu;
    if (list == NULL || fscanf(list, "%d", &cpu) != 1) exit(2);
    fclose(list);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) exit(2);
}

enum { WORDS = (96 << 20) / 8 };

static inline void fill(double *table) {
    for (size_t at = 0; at < WORDS; at++) table[at] = (double)at;
}

__attribute__((noinline, unused)) static double sum(const double *table) {
    double x = 0.0;
    for (size_t at = 0; at < WORDS; at++) x += table[at];
    return x;
}

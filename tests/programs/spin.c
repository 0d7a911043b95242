/*
 * Burns --ms of CPU in spin_here (in its inline callee inlined_work), called outer -> middle -> spin_here.
 * Built in many ways (see the Makefile): with and without frame pointers, stripped, static, without debug info ...
 */
#include "inline_work.h"
#include "known.h"

static volatile uint32_t result;

SEPARATE void spin_here(int64_t ns)
{
    uint32_t value = 1;
    for (int64_t end = thread_cpu_ns() + ns; thread_cpu_ns() < end;)
        value = inlined_work(value);
    result = value;
}

/* The statement after each call keeps it from becoming a jump. */
SEPARATE void middle(int64_t ns)
{
    spin_here(ns);
    result++;
}

SEPARATE void outer(int64_t ns)
{
    middle(ns);
    result++;
}

int main(int argc, char **argv)
{
    int64_t ns = known_milliseconds(argc, argv, 200) * MEGA, before = thread_cpu_ns();
    outer(ns);
    printf("spin_here_cpu_ns=%lld\n", (long long)(thread_cpu_ns() - before));
    known_end();
    return 0;
}

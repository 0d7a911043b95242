/* Calls recurse --depth times deep, then burns --ms of CPU in bottom: --depth frames of recurse under it. */
#include "inline_work.h"
#include "known.h"

SEPARATE uint32_t bottom(int64_t ns)
{
    uint32_t value = 1;
    for (int64_t end = thread_cpu_ns() + ns; thread_cpu_ns() < end;)
        value = inlined_work(value);
    return value;
}

/* The addition keeps the call from becoming a jump. */
SEPARATE uint32_t recurse(long depth, int64_t ns)
{
    return (depth > 1 ? recurse(depth - 1, ns) : bottom(ns)) + 1;
}

int main(int argc, char **argv)
{
    long depth = 64, ms = 200;
    const struct known_option options[] = {{"--depth", &depth, 1, 50000}, {"--ms", &ms, 0, 3600000}};
    known_options(argc, argv, options, 2);
    volatile uint32_t result = recurse(depth, (int64_t)ms * MEGA);
    (void)result;
    printf("depth=%ld\n", depth);
    known_end();
    return 0;
}

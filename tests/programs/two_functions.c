/* hot_a gets three times the CPU of hot_b, in alternating slices measured by the thread's own CPU clock. */
#include "inline_work.h"
#include "known.h"

static volatile uint32_t result;

SEPARATE void hot_a(int64_t end)
{
    while (thread_cpu_ns() < end)
        result = inlined_work(result);
}

SEPARATE void hot_b(int64_t end)
{
    while (thread_cpu_ns() < end)
        result = inlined_work(result) + 1;
}

int main(int argc, char **argv)
{
    int64_t total = known_milliseconds(argc, argv, 400) * MEGA, spent_a = 0, spent_b = 0;
    /* A slice that ran over is paid back by the next one: each goes up to what it should have by then. */
    for (int64_t goal_b = 2 * MEGA; spent_a + spent_b < total; goal_b += 2 * MEGA) {
        int64_t start = thread_cpu_ns();
        hot_a(start + 3 * goal_b - spent_a);
        int64_t middle = thread_cpu_ns();
        hot_b(middle + goal_b - spent_b);
        spent_a += middle - start;
        spent_b += thread_cpu_ns() - middle;
    }
    printf("hot_a_cpu_ns=%lld\nhot_b_cpu_ns=%lld\n", (long long)spent_a, (long long)spent_b);
    printf("ratio=%.3f\n", (double)spent_a / (double)(spent_b ? spent_b : 1));
    known_end();
    return 0;
}

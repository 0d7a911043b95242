// Throws --count exceptions (100000) through five frames that have something to destroy, and counts what arrives:
// a profiler that disturbs the stack or the unwinder's tables breaks it.
#include <cstdio>
#include <cstdlib>
#include <ctime>

static long destroyed;

struct Guard {
    ~Guard() { destroyed++; }
};

__attribute__((noinline)) static void throw_here(long number)
{
    Guard guard;
    throw number;
}
__attribute__((noinline)) static void frame_4(long number) { Guard guard; throw_here(number); }
__attribute__((noinline)) static void frame_3(long number) { Guard guard; frame_4(number); }
__attribute__((noinline)) static void frame_2(long number) { Guard guard; frame_3(number); }
__attribute__((noinline)) static void frame_1(long number) { Guard guard; frame_2(number); }

int main(int argc, char **argv)
{
    const long count = argc == 3 ? std::atol(argv[2]) : 100000;
    if (count < 1 || argc == 2 || argc > 3) {
        std::fprintf(stderr, "usage: %s [--count N]\n", argv[0]);
        return 2;
    }
    long caught = 0, sum = 0;
    for (long number = 0; number < count; number++) {
        try {
            frame_1(number);
        } catch (long thrown) {
            caught++;
            sum += thrown;
        }
    }
    const bool correct = caught == count && destroyed == 5 * count && sum == count * (count - 1) / 2;
    timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    std::printf("thrown=%ld\ncaught=%ld\ndestroyed=%ld\nresult_correct=%s\n", count, caught, destroyed,
                correct ? "yes" : "no");
    std::printf("process_cpu_ns=%lld\nEXIT-SUCCESS\n", cpu.tv_sec * 1000000000ll + cpu.tv_nsec);
    return correct ? 0 : 1;
}

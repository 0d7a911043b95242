/* Prints who it runs as and burns --ms of CPU; the test gives a copy of it another owner and the set-user-ID bit. */
#include "inline_work.h"
#include "known.h"

int main(int argc, char **argv)
{
    int64_t ns = known_milliseconds(argc, argv, 50) * MEGA;
    volatile uint32_t result = 1;
    while (process_cpu_ns() < ns)
        result = inlined_work(result);
    printf("real_uid=%d\neffective_uid=%d\n", (int)getuid(), (int)geteuid());
    known_end();
    return 0;
}

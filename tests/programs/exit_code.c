/* Ends with the exit code --code (default 7), after 10 ms of CPU. */
#include "inline_work.h"
#include "known.h"

int main(int argc, char **argv)
{
    long code = 7;
    known_options(argc, argv, &(struct known_option){"--code", &code, 0, 255}, 1);
    volatile uint32_t result = 1;
    while (process_cpu_ns() < 10 * MEGA)
        result = inlined_work(result);
    printf("exit_code=%ld\n", code);
    known_end();
    return (int)code;
}

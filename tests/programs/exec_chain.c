/*
 * Runs as three programs in one process: itself, itself again as "exec_chain_second", then the file
 * exec_chain_last beside it (built from this source too). Each burns --ms of CPU in burn_in_step.
 */
#include "inline_work.h"
#include "known.h"

#include <libgen.h>

static volatile uint32_t result;

SEPARATE void burn_in_step(int64_t ns)
{
    for (int64_t end = thread_cpu_ns() + ns; thread_cpu_ns() < end;)
        result = inlined_work(result);
}

int main(int argc, char **argv)
{
    long ms = 100, step = 1;
    const struct known_option options[] = {{"--ms", &ms, 0, 3600000}, {"--step", &step, 0, 3}};
    known_options(argc, argv, options, 2);
    burn_in_step((int64_t)ms * MEGA);
    printf("step=%ld\npid=%d\nname=%s\n", step, (int)getpid(), basename(argv[0]));
    if (step < 3) {
        char ms_text[24], step_text[24], path[4096] = {0};
        snprintf(ms_text, sizeof ms_text, "%ld", ms);
        snprintf(step_text, sizeof step_text, "%ld", step + 1);
        if (readlink("/proc/self/exe", path, sizeof path - 8) < 0)
            known_impossible("read /proc/self/exe");
        if (step == 2)
            strcat(path, "_last");
        fflush(stdout);
        execl(path, step == 1 ? "exec_chain_second" : path, "--ms", ms_text, "--step", step_text, (char *)NULL);
        known_impossible("exec the next step");
    }
    known_end();
    return 0;
}

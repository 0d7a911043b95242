/*
 * Burns --ms/2 of CPU in early_spin, then loads late_library.so (found beside it by its run path) and burns
 * --ms/2 there.
 */
#include "inline_work.h"
#include "known.h"

#include <dlfcn.h>

SEPARATE uint32_t early_spin(int64_t ns)
{
    uint32_t value = 1;
    for (int64_t end = thread_cpu_ns() + ns; thread_cpu_ns() < end;)
        value = inlined_work(value);
    return value;
}

int main(int argc, char **argv)
{
    int64_t ns = known_milliseconds(argc, argv, 200) * MEGA;
    volatile uint32_t result = early_spin(ns / 2);
    void *library = dlopen("late_library.so", RTLD_NOW);
    uint32_t (*late_spin)(int64_t) = NULL;
    if (library)
        *(void **)&late_spin = dlsym(library, "late_spin");
    if (!late_spin) {
        fprintf(stderr, "cannot load the library: %s\n", dlerror());
        return 1;
    }
    int64_t before = thread_cpu_ns();
    result = late_spin(ns / 2);
    (void)result;
    printf("late_spin_cpu_ns=%lld\n", (long long)(thread_cpu_ns() - before));
    dlclose(library);
    known_end();
    return 0;
}

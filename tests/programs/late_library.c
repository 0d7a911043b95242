/* The library that dlopen_spin loads late: burns CPU in late_spin. */
#include "inline_work.h"
#include "known.h"

uint32_t late_spin(int64_t ns);

SEPARATE uint32_t late_spin(int64_t ns)
{
    uint32_t value = 1;
    for (int64_t end = thread_cpu_ns() + ns; thread_cpu_ns() < end;)
        value = inlined_work(value);
    return value;
}

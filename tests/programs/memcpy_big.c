/* Copies --mb megabytes (2^20 bytes) again and again by the C library's memcpy in copy_here, for --ms of CPU. */
#include "known.h"

/* Called through this, so that the compiler cannot copy inline. */
static void *(*volatile library_memcpy)(void *, const void *, size_t) = memcpy;

SEPARATE long copy_here(char *to, const char *from, size_t bytes, int64_t ns)
{
    long copies = 0;
    for (int64_t end = thread_cpu_ns() + ns; thread_cpu_ns() < end; copies++)
        library_memcpy(to, from, bytes);
    return copies;
}

int main(int argc, char **argv)
{
    long mb = 64, ms = 200;
    const struct known_option options[] = {{"--mb", &mb, 1, 65536}, {"--ms", &ms, 0, 3600000}};
    known_options(argc, argv, options, 2);
    size_t bytes = (size_t)mb << 20;
    char *from = malloc(bytes), *to = malloc(bytes);
    if (!from || !to)
        known_impossible("allocate two buffers");
    memset(from, 7, bytes);
    memset(to, 0, bytes);
    long copies = copy_here(to, from, bytes, (int64_t)ms * MEGA);
    printf("copies=%ld\nbytes_copied=%zu\n", copies, (size_t)copies * bytes);
    printf("result_correct=%s\n", copies == 0 || memcmp(from, to, bytes) == 0 ? "yes" : "no");
    free(from);
    free(to);
    known_end();
    return 0;
}

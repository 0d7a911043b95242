/* Allocates a result of 4 MiB in each call, fills it, and frees it. */
#include "finding.h"
enum { N = 1 << 20 };
__attribute__((noinline)) static float *compute(float seed) {
    float *result = malloc(N * sizeof *result);
    if (result == NULL) exit(2);
    for (size_t i = 0; i < N; i++) result[i] = seed + (float)i;
    return result;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    /* As for a program that has told malloc to map large blocks always. */
    setenv("MALLOC_MMAP_THRESHOLD_", "131072", 1);
    if (getenv("RESULT_PER_CALL") == NULL) {
        setenv("RESULT_PER_CALL", "1", 1);
        execv("/proc/self/exe", argv);
    }
    for (float seed = 0; seconds() < limit; seed += 1.0f) {
        float *result = compute(seed);
        keep((double)result[N - 1]);
        free(result);
    }
}

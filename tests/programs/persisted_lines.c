/* Lines of a mapped file that libpmem persists, so many of each by construction: persisted_lines FILE MILLISECONDS
   Each round stores to 256 lines of the file. `each` persists every line by itself: a flush and a fence a line. `all` flushes them and
   drains once: 256 flushes, 1 fence. `again` does that twice, so that the second half of its flushes finds nothing to write. `past` copies
   to them with non-temporal stores and drains once. Prints the rounds. */
#include <libpmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINES = 256, LINE = 64 };

__attribute__((noinline)) static void each(char *memory, int round) {
    for (int i = 0; i < LINES; i++) {
        memory[i * LINE] = (char)round;
        pmem_persist(memory + i * LINE, LINE);
    }
}

__attribute__((noinline)) static void all(char *memory, int round) {
    for (int i = 0; i < LINES; i++) {
        memory[i * LINE] = (char)round;
        pmem_flush(memory + i * LINE, LINE);
    }
    pmem_drain();
}

__attribute__((noinline)) static void again(char *memory, int round) {
    for (int i = 0; i < LINES; i++) {
        memory[i * LINE] = (char)round;
        pmem_flush(memory + i * LINE, LINE);
    }
    pmem_flush(memory, LINES * LINE);
    pmem_drain();
}

__attribute__((noinline)) static void past(char *memory, int round) {
    static char from[LINES * LINE];
    from[0] = (char)round;
    pmem_memcpy(memory, from, sizeof from, PMEM_F_MEM_NONTEMPORAL);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    size_t bytes;
    char *memory = pmem_map_file(argv[1], 4 * LINES * LINE, PMEM_FILE_CREATE, 0600, &bytes, NULL);
    if (memory == NULL) {
        fprintf(stderr, "%s: %s\n", argv[1], pmem_errormsg());
        return 1;
    }
    memset(memory, 0, bytes);
    int rounds = 0;
    for (double end = now() + atof(argv[2]); now() < end; rounds++) {
        each(memory, rounds);
        all(memory + LINES * LINE, rounds);
        again(memory + 2 * LINES * LINE, rounds);
        past(memory + 3 * LINES * LINE, rounds);
    }
    printf("rounds=%d\n", rounds);
    return 0;
}

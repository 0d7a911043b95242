/*
 * Touches --huge 2 MB-aligned regions of 2 MB after madvise(MADV_HUGEPAGE), every 4 KB, in touch_huge. With
 * transparent huge pages there is one fault per region; without them 512. Prints what the kernel gave.
 */
#include "known.h"

#include <sys/mman.h>

static const size_t HUGE_PAGE = 2 << 20;

SEPARATE void touch_huge(volatile char *start, size_t bytes)
{
    for (size_t offset = 0; offset < bytes; offset += PAGE)
        start[offset] = 1;
}

/* Bytes of this process that are in transparent huge pages. */
static long huge_bytes_now(void)
{
    long kilobytes = 0;
    char line[256];
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "AnonHugePages: %ld kB", &kilobytes);
    if (file)
        fclose(file);
    return kilobytes * 1024;
}

int main(int argc, char **argv)
{
    long huge = 32;
    known_options(argc, argv, &(struct known_option){"--huge", &huge, 1, 100000}, 1);
    size_t bytes = (size_t)huge * HUGE_PAGE;
    char *mapping = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        known_impossible("map the regions");
    char *start = (char *)(((uintptr_t)mapping + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
    int advice = madvise(start, bytes, MADV_HUGEPAGE);
    long before = known_faults_now().minor;
    touch_huge(start, bytes);
    long faults = known_faults_now().minor - before;
    printf("madvise=%s\nregion_bytes=%zu\ntouch_minor_faults=%ld\nanon_huge_bytes=%ld\n",
           advice == 0 ? "accepted" : strerror(errno), bytes, faults, huge_bytes_now());
    known_end();
    return 0;
}

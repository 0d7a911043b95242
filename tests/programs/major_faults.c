/*
 * Reads one byte of each of --pages pages of a mapped file that has been dropped from the page cache.
 * Read-ahead is switched off (MADV_RANDOM), so each page is a major fault: on a disk file system
 * read_major_faults = pages; on tmpfs 0.
 */
#include "file_fault.h"

SEPARATE long read_from_disk_here(const volatile unsigned char *start, long pages)
{
    long sum = 0;
    for (long page = 0; page < pages; page++)
        sum += start[page * PAGE];
    return sum;
}

int main(int argc, char **argv)
{
    long pages = 500;
    known_options(argc, argv, &(struct known_option){"--pages", &pages, 1, 1000000}, 1);
    int file = file_of_pages(pages);
    size_t bytes = (size_t)pages * PAGE;
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    unsigned char *start = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    if (start == MAP_FAILED || madvise(start, bytes, MADV_RANDOM) != 0)
        known_impossible("map the file");
    struct known_faults before = known_faults_now();
    long sum = read_from_disk_here(start, pages);
    struct known_faults after = known_faults_now();
    printf("pages=%ld\nread_major_faults=%ld\nread_minor_faults=%ld\n", pages, after.major - before.major,
           after.minor - before.minor);
    printf("result_correct=%s\n", sum == sum_expected(pages) ? "yes" : "no");
    known_end();
    return 0;
}

/*
 * Faults on a file that is in the page cache: reads --pages pages of a shared mapping in read_file_here (the
 * kernel maps up to 16 pages around each fault), then writes each page of a private mapping in write_file_here
 * (one copy, one fault each).
 */
#include "file_fault.h"

SEPARATE long read_file_here(const volatile unsigned char *start, long pages)
{
    long sum = 0;
    for (long page = 0; page < pages; page++)
        sum += start[page * PAGE];
    return sum;
}

SEPARATE void write_file_here(volatile unsigned char *start, long pages)
{
    for (long page = 0; page < pages; page++)
        start[page * PAGE] = 1;
}

int main(int argc, char **argv)
{
    long pages = 4000;
    known_options(argc, argv, &(struct known_option){"--pages", &pages, 1, 1000000}, 1);
    int file = file_of_pages(pages);
    size_t bytes = (size_t)pages * PAGE;
    unsigned char *shared = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    unsigned char *own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (shared == MAP_FAILED || own == MAP_FAILED)
        known_impossible("map the file");
    long start = known_faults_now().minor;
    long sum = read_file_here(shared, pages);
    long middle = known_faults_now().minor;
    write_file_here(own, pages);
    long end = known_faults_now().minor;
    printf("pages=%ld\nread_minor_faults=%ld\nwrite_minor_faults=%ld\n", pages, middle - start, end - middle);
    printf("result_correct=%s\n", sum == sum_expected(pages) ? "yes" : "no");
    known_end();
    return 0;
}

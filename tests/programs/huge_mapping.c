/*
 * A mapping of 8 MiB in huge pages of 2 MiB. Prints where it lies, in hexadecimal; ends with 1 where there are no such
 * pages.
 */
#include "known.h"

#include <sys/mman.h>

int main(void)
{
    const size_t bytes = 8 << 20;
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (at == MAP_FAILED) {
        fprintf(stderr, "no huge pages here: %s\n", strerror(errno));
        return 1;
    }
    for (int round = 0; round < 20; round++)
        memset(at, round, bytes);
    printf("huge=%lx\nEXIT-SUCCESS\n", (unsigned long)at);
    return 0;
}

/* A file of whole pages that is gone when the program ends: for the targets that fault on file mappings. */
#ifndef FILE_FAULT_H
#define FILE_FAULT_H

#include "known.h"

#include <fcntl.h>
#include <sys/mman.h>

/* In /var/tmp, mostly a disk where /tmp may be memory, and synced. Page n is filled with the byte n % 251. */
static inline int file_of_pages(long pages)
{
    char path[] = "/var/tmp/file_fault.XXXXXX", page[PAGE];
    int file = mkstemp(path);
    if (file < 0)
        known_impossible("make a file in /var/tmp");
    unlink(path);
    for (long n = 0; n < pages; n++) {
        memset(page, (int)(n % 251), PAGE);
        if (write(file, page, PAGE) != PAGE)
            known_impossible("write the file");
    }
    if (fsync(file) != 0)
        known_impossible("sync the file");
    return file;
}

static inline long sum_expected(long pages)
{
    long sum = 0;
    for (long n = 0; n < pages; n++)
        sum += n % 251;
    return sum;
}

#endif

/* What the programs that read files share: a file of theirs without a name, on a disk. */
#pragma once
#define _GNU_SOURCE /* O_DIRECT */
#include "finding.h"
#include <fcntl.h>

/* Under /var/tmp, because /tmp may be memory. */
static inline int file_of(size_t megabytes) {
    char name[] = "/var/tmp/finding-XXXXXX";
    static char block[1 << 20];
    int file = mkstemp(name);
    if (file < 0 || unlink(name) != 0) exit(2);
    for (size_t m = 0; m < megabytes; m++) {
        memset(block, (int)m + 1, sizeof block);
        if (write(file, block, sizeof block) != (ssize_t)sizeof block) exit(2);
    }
    if (fsync(file) != 0) exit(2);
    return file;
}

/* Whatever of it is in memory is not any more. */
static inline void forget(int file) { posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED); }

/* From now on it is read past the system's memory of files. */
static inline void read_past_cache(int file) {
    if (fcntl(file, F_SETFL, O_DIRECT) != 0) exit(2);
}

/* Marks a table of 3 GiB from calloc once, page by page, and ends. */
#include "finding.h"
__attribute__((noinline)) static void mark(unsigned char *table, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 512) table[at] = (unsigned char)at;
}
int main(int argc, char **argv) {
    size_t bytes = (size_t)(limit_of(argc, argv) * 1024.0) << 20;
    unsigned char *table = calloc(bytes, 1);
    if (table == NULL) return 2;
    mark(table, bytes);
    keep_word(table[bytes / 2]);
}

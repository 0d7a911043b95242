/* Reads a file from a disk block by block, and computes something on each when it has come. */
#include "file.h"
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    static _Alignas(4096) char block[4 << 20];
    int file = file_of(64);
    read_past_cache(file);
    limit += seconds();
    while (seconds() < limit) {
        lseek(file, 0, SEEK_SET);
        while (seconds() < limit && read(file, block, sizeof block) > 0) compute_for(2e-3);
    }
}

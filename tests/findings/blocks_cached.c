/* Reads a file that is in memory block by block, and computes something on each. */
#include "file.h"
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    static char block[1 << 20];
    int file = file_of(16);
    limit += seconds();
    while (seconds() < limit) {
        lseek(file, 0, SEEK_SET);
        while (seconds() < limit && read(file, block, sizeof block) > 0) compute_for(8e-3);
    }
}

/* Asks the kernel for each byte. */
#include "file.h"
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    int file = open("/dev/zero", O_RDONLY);
    uint64_t sum = 0;
    while (seconds() < limit) {
        for (int i = 0; i < 10000; i++) {
            unsigned char byte = 1;
            if (read(file, &byte, 1) != 1) return 2;
            sum += byte;
        }
    }
    keep_word(sum);
}

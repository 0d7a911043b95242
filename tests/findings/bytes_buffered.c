/* Asks the kernel for 4 KiB at a time, and works on each byte. */
#include "file.h"
__attribute__((noinline)) static double work(const unsigned char *bytes, size_t count) {
    double x = 1.0;
    for (size_t i = 0; i < count; i++) x = x * 1.0000001 + bytes[i];
    return x;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    int file = open("/dev/zero", O_RDONLY);
    static unsigned char bytes[4096];
    while (seconds() < limit) {
        for (int i = 0; i < 100; i++) {
            if (read(file, bytes, sizeof bytes) != (ssize_t)sizeof bytes) return 2;
            keep(work(bytes, sizeof bytes));
        }
    }
}

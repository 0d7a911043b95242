/* Counts the spaces of a text of 8 KiB again and again. */
#include "finding.h"
__attribute__((noinline)) static uint64_t spaces(const char *text) {
    uint64_t count = 0;
    for (; *text != '\0'; text++) count += *text == ' ';
    return count;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    char *text = huge(8192);
    memset(text, 'a', 8191);
    while (seconds() < limit)
        for (int round = 0; round < 100; round++) keep_word(spaces(text));
}

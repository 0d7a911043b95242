/* Copies each word of a text with strdup before it looks at it. */
#include "finding.h"
__attribute__((noinline)) static uint64_t word_length(const char *word) {
    char *copy = strdup(word);
    uint64_t length = strlen(copy);
    free(copy);
    return length;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    static const char *const words[4] = {"memory", "bandwidth", "a", "translation lookaside buffer"};
    while (seconds() < limit)
        for (int round = 0; round < 1000; round++) keep_word(word_length(words[round & 3]));
}

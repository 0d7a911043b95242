/* A histogram of a text that is one letter nearly throughout: mostly one counter is loaded, raised and stored, again and
   again. Which one is in the data: no variable could hold it. */
#include "finding.h"
enum { N = 1 << 16 };
static uint32_t counts[256];
__attribute__((noinline)) static void count(const unsigned char *text) {
    for (size_t i = 0; i < N; i++) counts[text[i]]++;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    unsigned char *text = huge(N);
    memset(text, 'a', N);
    for (size_t i = 0; i < N; i += 4001) text[i] = 'b';
    while (seconds() < limit) count(text);
    keep_word(counts['a']);
}

/* Draws cells of a board of 1.5 GiB in small pages by lot and counts those that are set. */
#include "finding.h"
__attribute__((noinline)) static uint64_t count_set(const unsigned char *board, uint64_t cells, uint64_t *state, int n) {
    uint64_t count = 0;
    for (int i = 0; i < n; i++) count += board[next_random(state) % cells] != 0;
    return count;
}
int main(int argc, char **argv) {
    uint64_t cells = (uint64_t)3 << 29, state = 88172645463325252u;
    unsigned char *board = mmap(NULL, cells, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (board == MAP_FAILED) return 2;
    double limit = limit_of(argc, argv) + seconds();
    while (seconds() < limit) keep_word(count_set(board, cells, &state, 1 << 18));
}

/* Near-miss of strided-walk and low-line-use: a game of stones weighs its board column by column, with a stride of 1 KB,
   and uses one field of each square's structure; but the board is 128 KB, all in the second-level cache, and for each
   square it weighs the outcome with a polynomial of ten terms. Turned round it is as fast. */
#include "finding.h"

enum { ROWS = 128, COLUMNS = 64 };

struct square { float stones; uint32_t owner, age, seed; };
struct board { struct square squares[ROWS][COLUMNS]; };

static float weigh(float stones, float before) {
    float value = before * 0.5f;
    for (int term = 0; term < 10; term++) value = value * (stones * 0.1f) + 0.25f;
    return value;
}

static float value_of(const struct board *board) {
    float value = 0.0f;
#ifdef FIXED
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) value = weigh(board->squares[r][c].stones, value);
#else
    for (int c = 0; c < COLUMNS; c++)
        for (int r = 0; r < ROWS; r++) value = weigh(board->squares[r][c].stones, value);
#endif
    return value;
}

int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    static struct board board;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) board.squares[r][c].stones = (float)((r * 5 + c * 3) % 9);
    long rounds = 0;
    float value = 0.0f;
    for (; seconds() < limit; rounds++) {
        board.squares[rounds % ROWS][rounds % COLUMNS].stones += 1e-6f;
        value += value_of(&board);
    }
    printf("%ld rounds, %g\n", rounds, (double)value);
    return 0;
}

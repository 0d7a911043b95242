/* A tall matrix of three columns lies in rows of sixteen, as its library wants them: thirteen are padding. */
#include "finding.h"
enum { ROWS = 6 << 20, COLUMNS = 3, LEADING = 16 };
__attribute__((noinline)) static float residual(const float *matrix, const float *x) {
    float sum = 0.0f;
    for (size_t row = 0; row < ROWS; row++) {
        float product = 0.0f;
        for (size_t column = 0; column < COLUMNS; column++) product += matrix[row * LEADING + column] * x[column];
        sum += product * product;
    }
    return sum;
}
int main(int argc, char **argv) {
    float *matrix = huge((size_t)ROWS * LEADING * sizeof *matrix), x[COLUMNS] = {1.0f, 2.0f, 3.0f};
    double limit = limit_of(argc, argv) + seconds();
    while (seconds() < limit) keep(residual(matrix, x));
}

/* Uses all fields of the same records. */
#include "finding.h"
struct record { double value, others[7]; };
enum { N = 2 << 20 };
__attribute__((noinline)) static double sum_records(const struct record *records) {
    double sum = 0.0;
    for (size_t i = 0; i < N; i++) {
        const double *o = records[i].others;
        sum += records[i].value * o[0] + o[1] * o[2] + o[3] * o[4] + o[5] / (o[6] + 3.0);
    }
    return sum;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    struct record *records = huge(N * sizeof *records);
    while (seconds() < limit) keep(sum_records(records));
}

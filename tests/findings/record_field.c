/* Sums one field of records of 64 bytes: an eighth of what is fetched is used. */
#include "finding.h"
struct record { double value, others[7]; };
enum { N = 2 << 20 };
__attribute__((noinline)) static double sum_field(const struct record *records) {
    double sum = 0.0;
    for (size_t i = 0; i < N; i++) sum += records[i].value;
    return sum;
}
int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    struct record *records = huge(N * sizeof *records);
    while (seconds() < limit) keep(sum_field(records));
}

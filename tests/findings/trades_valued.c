/* A risk run over 1.5 million trades, records of 128 bytes of which the run reads four fields: looks as if it used a
   fourth of each line, but each valuation is an exponential, a logarithm and two error functions, and the lines are
   there in time. ALIKE has the four fields in records of their own: 0.98 times the speed. */
#include <math.h>
#include "finding.h"

enum { Trades = 1500000 };

struct terms {
    double strike, expiry, volatility, amount;
};

#ifdef ALIKE
typedef struct terms record;
#define TERMS(r) (&(r))
#else
typedef struct {
    char counterparty[32], book[16];
    uint64_t trade, booked;
    struct terms terms;
    uint32_t currency, desk, trader, state;
    double fees, margin;
} record;
#define TERMS(r) (&(r).terms)
#endif

static double call_value(const struct terms *t, double spot, double rate) {
    double spread = t->volatility * sqrt(t->expiry);
    double up = (log(spot / t->strike) + (rate + t->volatility * t->volatility * .5) * t->expiry) / spread;
    double present = t->strike * exp(-rate * t->expiry);
    return t->amount * (spot * .5 * erfc(-up * M_SQRT1_2) - present * .5 * erfc((spread - up) * M_SQRT1_2));
}

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    record *trades = huge(sizeof(record) * Trades);
    uint64_t random = 1973;
    for (int t = 0; t < Trades; t++) {
        struct terms *terms = (struct terms *)TERMS(trades[t]);
        terms->strike = 60. + (double)(next_random(&random) % 80);
        terms->expiry = .05 + (double)(next_random(&random) % 100) * .03;
        terms->volatility = .1 + (double)(next_random(&random) % 100) * .004;
        terms->amount = (double)(next_random(&random) % 1000);
    }
    double value = 0.0, began = seconds();
    long valued = 0;
    for (int t = 0; seconds() < began + until; valued += 500)
        for (int k = 0; k < 500; k++, t = t + 1 == Trades ? 0 : t + 1) value += call_value(TERMS(trades[t]), 100., .03);
    keep(value);
    printf("%.2f million trades/s\n", (double)valued / 1e6 / (seconds() - began));
}

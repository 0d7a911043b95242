/* Primality tests of 62-bit numbers (Miller and Rabin): powers modulo n, each product reduced with a 128-bit division.
   No memory to speak of. Cause: arithmetic. FIXED reduces by multiplication (Montgomery): 1.6 to 1.8 times the speed. */
#include "finding.h"

typedef unsigned __int128 wide;

struct field {
    uint64_t modulus, inverse, one, square;
};

static struct field field_of(uint64_t n) {
    uint64_t inverse = n;
    for (int k = 0; k < 5; k++) inverse *= 2 - n * inverse;
    uint64_t one = (uint64_t)(((wide)1 << 64) % n);
    return (struct field){n, inverse, one, (uint64_t)((wide)one * one % n)};
}

static inline uint64_t times(const struct field *f, uint64_t a, uint64_t b) {
    wide product = (wide)a * b;
#ifdef FIXED
    uint64_t low = (uint64_t)product * f->inverse, high = (uint64_t)(((wide)low * f->modulus) >> 64);
    uint64_t result = (uint64_t)(product >> 64) - high;
    return (uint64_t)(product >> 64) < high ? result + f->modulus : result;
#else
    return (uint64_t)(product % f->modulus);
#endif
}

static int probably_prime(uint64_t n, uint64_t base) {
    struct field f = field_of(n);
#ifdef FIXED
    uint64_t one = f.one, x = times(&f, base, f.square);
#else
    uint64_t one = 1, x = base;
#endif
    uint64_t result = one, odd = n - 1;
    int twos = __builtin_ctzll(odd);
    for (odd >>= twos; odd != 0; odd >>= 1, x = times(&f, x, x))
        if (odd & 1) result = times(&f, result, x);
    if (result == one || result == n - one) return 1;
    for (int k = 1; k < twos; k++) {
        result = times(&f, result, result);
        if (result == n - one) return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    uint64_t random = 1234567, primes = 0;
    long tested = 0;
    for (; seconds() < until; tested += 100)
        for (int i = 0; i < 100; i++)
            primes += (uint64_t)probably_prime(next_random(&random) >> 2 | 1ull << 61 | 1, 2);
    printf("1 of %.1f prime, %.2f thousand tests/s\n", (double)tested / (double)primes, (double)tested / 1e3 / seconds());
}

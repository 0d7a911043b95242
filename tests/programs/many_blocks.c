/*
 * 256 small functions in turn, without end: each has three blocks, so a window of some ten microseconds meets more of
 * them than the caches of its copies held.
 */
#include <stdint.h>

static volatile uint32_t sink;

#define ONE(n)                                                                                     \
    static __attribute__((noinline)) uint32_t f##n(uint32_t x)                                     \
    {                                                                                              \
        return x & (1u << (n % 32)) ? x * 3 + n : (x >> 1) + sink;                                 \
    }
#define ALL(of)                                                                                    \
    SIXTEEN(of, 0) SIXTEEN(of, 1) SIXTEEN(of, 2) SIXTEEN(of, 3) SIXTEEN(of, 4) SIXTEEN(of, 5)      \
    SIXTEEN(of, 6) SIXTEEN(of, 7) SIXTEEN(of, 8) SIXTEEN(of, 9) SIXTEEN(of, 10) SIXTEEN(of, 11)    \
    SIXTEEN(of, 12) SIXTEEN(of, 13) SIXTEEN(of, 14) SIXTEEN(of, 15)
#define SIXTEEN(of, m)                                                                             \
    of(1##m##00) of(1##m##01) of(1##m##02) of(1##m##03) of(1##m##04) of(1##m##05) of(1##m##06)     \
    of(1##m##07) of(1##m##08) of(1##m##09) of(1##m##10) of(1##m##11) of(1##m##12) of(1##m##13)     \
    of(1##m##14) of(1##m##15)

ALL(ONE)

int main(void)
{
    uint32_t x = 1;
#define CALL(n) x = f##n(x);
    for (;;) {
        ALL(CALL)
        sink = x;
    }
}

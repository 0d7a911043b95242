/*
 * Gathers and scatters, and other vectors (AVX2, AVX-512F, as the processor has them): many addresses in one
 * instruction, some masked off and pointing nowhere. Compared with plain loops.
 */
#include "checked.h"

#include <immintrin.h>

enum { WORDS = 1 << 16 };

static int32_t table[WORDS], order[WORDS], scattered[WORDS];

SEPARATE static int64_t plain(void)
{
    int64_t total = 0;
    for (int n = 0; n < WORDS; n++)
        total += (n & 7) < 6 ? table[order[n]] : 0;
    return total;
}

__attribute__((target("avx2"))) SEPARATE static int64_t by_avx2(void)
{
    __m256i total = _mm256_setzero_si256(), mask = _mm256_setr_epi32(-1, -1, -1, -1, -1, -1, 0, 0);
    for (int n = 0; n < WORDS; n += 8) {
        __m256i index = _mm256_loadu_si256((const __m256i *)(order + n));
        /* The last two lanes point far away; a masked lane must not be read. */
        index = _mm256_blend_epi32(index, _mm256_set1_epi32(0x7fffffff), 0xc0);
        __m256i found = _mm256_mask_i32gather_epi32(_mm256_setzero_si256(), table, index, mask, 4);
        total = _mm256_add_epi64(total, _mm256_cvtepi32_epi64(_mm256_castsi256_si128(found)));
        total = _mm256_add_epi64(total, _mm256_cvtepi32_epi64(_mm256_extracti128_si256(found, 1)));
    }
    int64_t parts[4];
    _mm256_storeu_si256((__m256i *)parts, total);
    return parts[0] + parts[1] + parts[2] + parts[3];
}

__attribute__((target("avx512f"))) SEPARATE static void scatter(void)
{
    for (int n = 0; n < WORDS; n += 16) {
        __m512i index = _mm512_loadu_si512(order + n), value = _mm512_loadu_si512(table + n);
        _mm512_mask_i32scatter_epi32(scattered, 0xff3f, index, value, 4);
    }
}

int main(int argc, char **argv)
{
    long rounds = checked_rounds(argc, argv, 3000), wrong = 0;
    uint64_t state = 88172645463325252u, sum = 1;
    for (int n = 0; n < WORDS; n++) {
        table[n] = (int32_t)next_random(&state);
        order[n] = n;
    }
    for (int n = WORDS - 1; n > 0; n--) {
        int other = (int)(next_random(&state) % (uint64_t)(n + 1)), kept = order[n];
        order[n] = order[other];
        order[other] = kept;
    }
    int has_avx2 = __builtin_cpu_supports("avx2") != 0, has_512 = __builtin_cpu_supports("avx512f") != 0;
    for (long round = 0; round < rounds; round++) {
        int64_t expected = plain();
        wrong += has_avx2 && by_avx2() != expected;
        if (has_512)
            scatter();
        table[round % WORDS] += (int32_t)round;
        sum = sum_of(sum, (uint64_t)expected);
    }
    table[(rounds - 1) % WORDS] -= (int32_t)(rounds - 1); /* the last change came after the last scatter */
    for (int n = 0; has_512 && n < WORDS; n++)
        wrong += scattered[order[n]] != ((0xff3f >> n % 16 & 1) ? table[n] : 0);
    printf("avx2=%d\navx512f=%d\nwrong=%ld\n", has_avx2, has_512, wrong);
    return checked_end(sum, wrong == 0);
}

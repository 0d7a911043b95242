/*
 * What a drawn program shares with its runtime: arrays, the marks between repeats, and threads.
 *
 * What not: the access patterns; the generator writes those. The runtime is compiled on its own and always in the
 * same way, so that setting up costs little at -O0 too, and so that the compiler of the program cannot see into it.
 */
#ifndef DRAWN_H
#define DRAWN_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
/* An array behind an operator, as C++ programs have it: at -O0 each access is a call. */
template <typename T> struct drawn_span {
    T *data;
    drawn_span &operator=(void *memory)
    {
        data = static_cast<T *>(memory);
        return *this;
    }
    template <typename I> T &operator[](I at) const { return data[at]; }
    operator T *() const { return data; }
};
#define ARRAY(T) drawn_span<T>
#define RESTRICT __restrict__
extern "C" {
#else
#define ARRAY(T) T *
#define RESTRICT restrict
#endif

enum { DRAWN_MOST_PHASES = 3, DRAWN_MOST_THREADS = 2 };

/* What this thread's part computed; printed at the end, so that nothing is optimised away. */
extern double drawn_sum[DRAWN_MOST_THREADS][16];
extern size_t drawn_repeats[DRAWN_MOST_PHASES];

/* Memory aligned to 2 MiB; `huge` asks for huge pages. Each array is written in full right after. */
void *drawn_array(size_t bytes, int huge);
void drawn_fill_float(float *array, size_t elements);
void drawn_fill_double(double *array, size_t elements);
void drawn_fill_int32_t(int32_t *array, size_t elements);
void drawn_fill_int64_t(int64_t *array, size_t elements);
/* Numbers below `bound` without visible order. */
void drawn_indices(uint32_t *array, size_t elements, uint32_t bound, uint64_t seed);
/* A single cycle through all numbers below `elements`, in drawn order (Sattolo 1986). */
void drawn_cycle(uint32_t *array, size_t elements, uint64_t seed);

void drawn_begin(int count, char **words, int phases);
void drawn_mark(void); /* before each repeat, and after the last */
void drawn_phase_begins(int phase);
void drawn_phase_ends(int phase);
void drawn_parallel(int phase, int threads, void (*work)(int thread, int threads));
int drawn_end(void);

#ifdef __cplusplus
}
#endif

/* What a lap reads may have changed since the lap before, for all that the compiler knows. */
#define DRAWN_LAP __asm__ volatile("" : : : "memory")
#define NOINLINE __attribute__((noinline))
/* The next number of a linear congruence (Knuth, TAOCP vol. 2, 3.3.4); use the upper bits. */
#define DRAWN_NEXT(x) ((x) = (x) * 6364136223846793005u + 1442695040888963407u)

#endif

/*
 * One function per way to use memory, each for --ms of CPU: triad, column, chase, scalar, fill, in_place, atomic. Prints
 * where its data lie before it begins (`triad_a=0x...`, `bytes`), so that a tracer's addresses can be checked one by
 * one. --only N runs the Nth alone (1 is triad), --threads N all of it in so many threads.
 *
 *   triad     a[i] = b[i] + 3 c[i]; 8 bytes, upwards        column   down the columns of a matrix: COLUMNS words apart
 *   chase     *p leads to the next: one cycle, at random    scalar   one word read again and again
 *   fill      a[i] = k, upwards                             in_place, atomic   a[i] += k; one word += 1, locked
 */
#include "checked.h"

#include <pthread.h>

enum { WORDS = 1 << 16, COLUMNS = 512, ROWS = WORDS / COLUMNS, LINKS = 1 << 14, LINE_WORDS = 8 };

struct data {
    double a[WORDS], b[WORDS], c[WORDS];
    uint64_t matrix[ROWS][COLUMNS], words[WORDS];
    uint64_t *links[LINKS][LINE_WORDS];
    volatile uint64_t scalar;
    uint64_t counter;
    int64_t ns;
    long only;
    uint64_t sum;
};

SEPARATE uint64_t triad(struct data *data)
{
    double *a = data->a, *b = data->b, *c = data->c;
    for (long n = 0; n < WORDS; n++)
        a[n] = b[n] + 3.0 * c[n];
    return 0;
}

SEPARATE uint64_t column(struct data *data)
{
    uint64_t sum = 0;
    for (long at = 0; at < COLUMNS; at++)
        for (long row = 0; row < ROWS; row++)
            sum += data->matrix[row][at];
    return sum;
}

SEPARATE uint64_t chase(struct data *data)
{
    uint64_t *at = (uint64_t *)data->links[0];
    for (long n = 0; n < LINKS; n++)
        at = *(uint64_t **)at;
    return at == (uint64_t *)data->links[0];
}

SEPARATE uint64_t scalar(struct data *data)
{
    uint64_t sum = 0;
    for (long n = 0; n < WORDS; n++)
        sum += data->scalar;
    return sum;
}

SEPARATE uint64_t fill(struct data *data)
{
    volatile uint64_t *words = data->words;
    for (long n = 0; n < WORDS; n++)
        words[n] = 1;
    return 0;
}

SEPARATE uint64_t in_place(struct data *data)
{
    uint64_t *words = data->words;
    for (long n = 0; n < WORDS; n++)
#ifdef __x86_64__
        __asm__ volatile("addq %1, %0" : "+m"(words[n]) : "r"(3ul)); /* one instruction, whatever the compiler */
#else
        words[n] += 3;
#endif
    return words[WORDS / 2];
}

SEPARATE uint64_t atomic(struct data *data)
{
    for (long n = 0; n < WORDS; n++)
        __atomic_fetch_add(&data->counter, 1, __ATOMIC_RELAXED);
    return 0;
}

static uint64_t (*const parts[])(struct data *) = {triad, column, chase, scalar, fill, in_place, atomic};
enum { PARTS = sizeof parts / sizeof *parts };

static void *work(void *argument)
{
    struct data *data = argument;
    for (int part = 0; part < PARTS; part++) {
        if (data->only != 0 && data->only != part + 1)
            continue;
        uint64_t sum = 0;
        /* Sixteen calls between two looks at the clock: a system call ends a burst. */
        for (int64_t end = thread_cpu_ns() + data->ns; thread_cpu_ns() < end;)
            for (int call = 0; call < 16; call++)
                sum = parts[part](data);
        data->sum = sum_of(data->sum, sum);
    }
    return NULL;
}

/* One cycle through all links (Sattolo 1986). */
static void prepare(struct data *data)
{
    static uint32_t order[LINKS];
    uint64_t state = 88172645463325252u;
    for (uint32_t n = 0; n < LINKS; n++)
        order[n] = n;
    for (uint32_t n = LINKS - 1; n > 0; n--) {
        uint32_t other = (uint32_t)(next_random(&state) % n), kept = order[n];
        order[n] = order[other];
        order[other] = kept;
    }
    for (uint32_t n = 0; n < LINKS; n++)
        data->links[n][0] = (uint64_t *)data->links[order[n]];
    for (long n = 0; n < WORDS; n++) {
        data->b[n] = (double)n;
        data->c[n] = 1.0 / (double)(n + 1);
        data->matrix[n / COLUMNS][n % COLUMNS] = next_random(&state);
    }
    data->scalar = 7;
}

int main(int argc, char **argv)
{
    long ms = 100, only = 0, threads = 1;
    const struct known_option options[] = {
        {"--ms", &ms, 1, 3600000}, {"--only", &only, 0, PARTS}, {"--threads", &threads, 1, 16}};
    known_options(argc, argv, options, 3);
    struct data *data = aligned_alloc(PAGE, (size_t)threads * ((sizeof *data + PAGE - 1) / PAGE * PAGE));
    if (!data)
        known_impossible("have that much memory");
    pthread_t started[16];
    for (long thread = 0; thread < threads; thread++) {
        memset(&data[thread], 0, sizeof *data);
        data[thread].ns = (int64_t)ms * MEGA;
        data[thread].only = only;
        prepare(&data[thread]);
    }
#define TELL(name, field) printf(#name "=%p\n" #name "_bytes=%zu\n", (void *)data->field, sizeof data->field)
    TELL(triad_a, a);
    TELL(triad_b, b);
    TELL(triad_c, c);
    TELL(matrix, matrix);
    TELL(links, links);
    printf("counter=%p\n", (void *)&data->counter);
    printf("pid=%d\nready=1\n", (int)getpid());
    for (long thread = 1; thread < threads; thread++)
        if (pthread_create(&started[thread], NULL, work, &data[thread]) != 0)
            known_impossible("start a thread");
    work(data);
    int same = 1;
    for (long thread = 1; thread < threads; thread++) {
        pthread_join(started[thread], NULL);
        same &= data[thread].c[WORDS - 1] == data->c[WORDS - 1];
    }
    int correct = same;
    for (long n = 0; n < WORDS && (only == 0 || only == 1); n++)
        correct &= data->a[n] == data->b[n] + 3.0 * data->c[n];
    known_end();
    return correct ? 0 : 1;
}

/*
 * One thread replaces code, others call it within microseconds, and nobody ever calls what is being replaced: --threads (2) wait
 * without a system call for the next turn, call a function --calls times, and report in. Then the main thread puts other code at
 * the same address. --way: 0 dlclose and dlopen of two libraries of the same layout; 1 a whole library mapped over the other;
 * 2 only its code, which nothing then tells from that of any file.
 * What not: a program that may also call what is being replaced, which would crash alone as well.
 */
#include "checked.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_THREADS = 64, SPINS_BEFORE_YIELD = 200000 };

typedef uint64_t (*work_t)(uint64_t);

static const char *const NAMES[2] = {"swap_library_a.so", "swap_library_b.so"};

static _Atomic long turn, arrived;
static work_t _Atomic work;
static long calls = 20, rounds;

/* A thread that a CPU was taken from is waited for; that is rare, so the wait is mostly without a system call. */
static void wait_until(_Atomic long *value, long least)
{
    for (long spun = 0; atomic_load(value) < least; spun++)
        if (spun % SPINS_BEFORE_YIELD == SPINS_BEFORE_YIELD - 1)
            sched_yield();
}

static void *worker(void *sum_of_mine)
{
    uint64_t sum = *(uint64_t *)sum_of_mine;
    for (long round = 1; round <= rounds; round++) {
        wait_until(&turn, round);
        for (long call = 0; call < calls; call++)
            sum = work(sum);
        atomic_fetch_add(&arrived, 1);
    }
    *(uint64_t *)sum_of_mine = sum;
    return NULL;
}

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, dlerror());
    exit(1);
}

static void *loaded(int which)
{
    void *library = dlopen(NAMES[which], RTLD_NOW);
    if (!library)
        give_up("cannot load the library");
    *(void **)&work = dlsym(library, "library_work");
    return library;
}

/* What to map of a library, and where in it the function is. */
struct code {
    int file;
    size_t from, length, function;
};

static struct code code_of(int which, int only_code)
{
    void *library = loaded(which);
    struct link_map *map;
    Dl_info found;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) || !dladdr((void *)work, &found))
        give_up("cannot find the library");
    /* Its code lies in the file at the same distance as in memory, as linkers lay small libraries out. */
    struct code code = {.file = open(map->l_name, O_RDONLY | O_CLOEXEC)};
    size_t at = (size_t)((char *)work - (char *)found.dli_fbase);
    struct stat status;
    if (code.file < 0 || fstat(code.file, &status))
        give_up("cannot open the library");
    code.from = only_code ? at / PAGE * PAGE : 0;
    code.length = only_code ? PAGE : ((size_t)status.st_size + PAGE - 1) / PAGE * PAGE;
    code.function = at - code.from;
    dlclose(library);
    return code;
}

int main(int argc, char **argv)
{
    static uint64_t sums[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    long count = 2, way = 0;
    rounds = 2000;
    known_options(argc, argv,
                  (struct known_option[]){{"--rounds", &rounds, 1, 1000000000},
                                          {"--threads", &count, 1, MOST_THREADS},
                                          {"--calls", &calls, 1, 1000000},
                                          {"--way", &way, 0, 2}},
                  4);
    struct code codes[2] = {{0}};
    char *place = NULL;
    if (way) {
        for (int which = 0; which < 2; which++)
            codes[which] = code_of(which, way == 2);
        place = mmap(NULL, codes[0].length + codes[1].length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    for (long thread = 0; thread < count; thread++) {
        sums[thread] = (uint64_t)thread + 1;
        pthread_create(&threads[thread], NULL, worker, &sums[thread]);
    }
    void *library = NULL;
    for (long round = 1; round <= rounds; round++) {
        int which = round % 2;
        if (way) {
            struct code *code = &codes[which];
            char *at = mmap(place, code->length, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, code->file, (off_t)code->from);
            if (at == MAP_FAILED)
                give_up("cannot map the code");
            *(void **)&work = at + code->function;
        } else {
            if (library)
                dlclose(library);
            library = loaded(which);
        }
        atomic_store(&turn, round);
        wait_until(&arrived, round * count);
    }
    uint64_t sum = 1;
    int correct = 1;
    for (long thread = 0; thread < count; thread++) {
        pthread_join(threads[thread], NULL);
        sum = sum_of(sum, sums[thread]);
    }
    /* The same in this thread alone, with libraries that stay. */
    work_t both[2];
    for (int which = 0; which < 2; which++) {
        loaded(which);
        both[which] = work;
    }
    uint64_t expected = 1;
    for (long thread = 0; thread < count; thread++) {
        uint64_t alone = (uint64_t)thread + 1;
        for (long round = 1; round <= rounds; round++)
            for (long call = 0; call < calls; call++)
                alone = both[round % 2](alone);
        correct &= alone == sums[thread];
        expected = sum_of(expected, alone);
    }
    return checked_end(sum, correct && sum == expected);
}

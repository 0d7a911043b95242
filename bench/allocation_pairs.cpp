// The program of `bench/allocation_cost.py`: pairs of an allocation and a free, from call stacks of 5 to 30 frames.
//
//     allocation_pairs PAIRS THREADS [deep | heap]
//
// Each thread makes PAIRS pairs of 16 to 256 bytes, a few of which live at a time, from functions that call each other to
// changing depths. With `deep` each pair comes from a stack of 40 to 140 frames. With `heap` one function allocates up to 2 M
// blocks of 24 to 87 bytes and frees them in another order, again and again, as a table that is filled and dropped. Prints the time for the pairs alone.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

static unsigned next(unsigned &state) {
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

struct Work {
    unsigned state;
    long left;
    void *kept[16];

    __attribute__((noinline)) void pair_small() {
        unsigned slot = next(state) & 15;
        free(kept[slot]);
        kept[slot] = malloc(16 + (state >> 10 & 63));
        left--;
    }
    __attribute__((noinline)) void pair_new() {
        unsigned slot = next(state) & 15;
        operator delete(kept[slot]);
        kept[slot] = operator new(16 + (state >> 9 & 239));
        left--;
    }
    __attribute__((noinline)) void at_end() {
        for (int i = 0; i < 8 && left > 0; i++) {
            if (i & 1) pair_small(); else pair_new();
        }
        asm volatile("" ::: "memory");
    }
    template <int WHICH> __attribute__((noinline)) void down(int depth) {
        volatile char here[16 + 16 * WHICH];
        here[0] = (char)depth;
        if (depth <= 0) at_end();
        else if (next(state) & 1) down<(WHICH + 1) % 3>(depth - 1);
        else down<(WHICH + 2) % 3>(depth - 1);
        asm volatile("" ::"r"(here[0]) : "memory");
    }
};

static void run(unsigned seed, long pairs, bool deep) {
    Work work{seed, pairs, {}};
    while (work.left > 0) {
        unsigned depth = deep ? 37 + next(work.state) % 100 : 1 + next(work.state) % 25;
        // A few call trees, not a new one each time: programs have a bounded number of call chains.
        unsigned kept = work.state;
        work.state = depth % 7;
        for (int i = 0; i < 4; i++) { work.state = depth % 7; work.down<0>((int)depth); }
        work.state = kept;
    }
    for (void *block : work.kept) free(block);
}

static void fill_and_drop(long pairs) {
    long count = pairs < 2000000 ? pairs : 2000000;
    std::vector<void *> blocks(count);
    std::vector<unsigned> order(count);
    unsigned state = 1;
    for (long i = 0; i < count; i++) order[i] = (unsigned)i;
    for (long i = count - 1; i > 0; i--) std::swap(order[i], order[next(state) % (i + 1)]);
    for (; pairs > 0; pairs -= count) {
        for (long i = 0; i < count; i++) blocks[i] = malloc(24 + (i & 63));
        for (unsigned i : order) free(blocks[i]);
    }
}

int main(int argc, char **argv) {
    long pairs = argc > 1 ? atol(argv[1]) : 1000000;
    int threads = argc > 2 ? atoi(argv[2]) : 1;
    bool deep = argc > 3 && !strcmp(argv[3], "deep");
    auto before = std::chrono::steady_clock::now();
    if (argc > 3 && !strcmp(argv[3], "heap")) fill_and_drop(pairs);
    else if (threads == 1) run(1, pairs, deep);
    else {
        std::vector<std::thread> all;
        for (int i = 0; i < threads; i++) all.emplace_back(run, i + 1, pairs, deep);
        for (auto &thread : all) thread.join();
    }
    std::chrono::duration<double> time = std::chrono::steady_clock::now() - before;
    printf("ns_per_pair %.2f\n", time.count() * 1e9 / pairs);
    return 0;
}

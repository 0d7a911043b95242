/* k-means by two threads over 4,096 points that stay in the cache: each thread adds to sums of its own, but those of
   all threads for a cluster lie side by side, 16 bytes apart. Cause: false sharing. FIXED puts a thread's sums
   together, lines away from the other's: 21 times the speed. */
#include <array>
#include <thread>
#include <vector>
#include "finding.h"

namespace {
constexpr unsigned Threads = 2, Clusters = 8, Points = 4096;

struct Partial {
    double sum;
    uint64_t count;
};

#ifdef FIXED
struct alignas(256) Own {
    std::array<Partial, Clusters> of;
};
using Sums = std::array<Own, Threads>;
Partial &partial(Sums &sums, unsigned cluster, unsigned thread) { return sums[thread].of[cluster]; }
#else
using Sums = std::array<std::array<Partial, Threads>, Clusters>;
Partial &partial(Sums &sums, unsigned cluster, unsigned thread) { return sums[cluster][thread]; }
#endif

struct Means {
    std::vector<float> points;
    alignas(64) Sums sums{};
    std::array<long, 2 * 64> rounds{};

    void assign(unsigned thread) {
        for (unsigned p = thread * Points / Threads; p < (thread + 1) * Points / Threads; p++) {
            float point = points[p];
            auto cluster = static_cast<unsigned>(point * Clusters);
            Partial &to = partial(sums, cluster, thread);
            to.sum += point;
            to.count++;
            __asm__ volatile("" ::: "memory");
        }
        rounds[64 * thread]++;
    }
};
} // namespace

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    Means means;
    uint64_t random = 12345;
    for (unsigned p = 0; p < Points; p++)
        means.points.push_back(static_cast<float>(next_random(&random) >> 40) * 0x1p-24f);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < Threads; t++)
        threads.emplace_back([&, t] {
            while (seconds() < until)
                for (int i = 0; i < 100; i++) means.assign(t);
        });
    for (auto &thread : threads) thread.join();
    keep(partial(means.sums, 3, 0).sum);
    printf("%.0f rounds/s\n", static_cast<double>(means.rounds[0] + means.rounds[64]) / until);
}

/* Gradient boosting by two threads, where leaves hold very unequal numbers of samples, as in a skewed tree; each has a
   fixed half of the leaves, but the large ones are spread among both. ALIKE has them draw the next leaf from a common
   counter: 0.98 to 1.00 times the speed. */
#include <atomic>
#include <thread>
#include <vector>
#include "finding.h"

namespace {
struct Leaf {
    std::vector<float> gradients;
    double gain = 0.0;
};

class Forest {
  public:
    explicit Forest(std::size_t count) : leaves(count) {
        uint64_t random = 31;
        for (std::size_t l = 0; l < count; l++) {
            const float gradient = static_cast<float>(next_random(&random) % 100) * .02f - 1.f;
            leaves[l].gradients.assign(l / 2 % 32 == 5 ? 2048 : 8 + l / 2 % 7, gradient);
        }
    }

    void score(Leaf &leaf) const {
        float sum = 0.f, weight = 1.f;
        for (float gradient : leaf.gradients) {
            sum += gradient / (1.f + gradient * gradient);
            weight += 1.f / (2.f + gradient);
        }
        leaf.gain += sum * sum / weight;
    }

    void round(unsigned thread) {
#ifdef ALIKE
        (void)thread;
        for (std::size_t l; (l = next.fetch_add(8)) < leaves.size();)
            for (std::size_t k = l; k < l + 8; k++) score(leaves[k]);
#else
        for (std::size_t l = thread; l < leaves.size(); l += 2) score(leaves[l]);
#endif
    }

    std::vector<Leaf> leaves;
    std::atomic<std::size_t> next{0};
};
} // namespace

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    Forest forest(8192);
    pthread_barrier_t meeting;
    pthread_barrier_init(&meeting, nullptr, 2);
    std::atomic<bool> over{false};
    long rounds = 0;
    auto work = [&](unsigned thread) {
        while (!over) {
            forest.round(thread);
            pthread_barrier_wait(&meeting);
            if (thread == 0) forest.next = 0, rounds++, over = seconds() >= until;
            pthread_barrier_wait(&meeting);
        }
    };
    std::thread other(work, 1u);
    work(0);
    other.join();
    printf("%.2f million leaves/s\n", static_cast<double>(rounds) * 8192 / 1e6 / seconds());
}

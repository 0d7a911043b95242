/* Two requests at a time, and each asks a numerical library that starts a team of eight threads for its loops: sixteen
   busy threads on two processors. They wait for each other by spinning and then giving way. Cause: too many threads.
   FIXED: teams of one: 12 to 35 times the speed. */
#include <atomic>
#include <sched.h>
#include <thread>
#include <vector>
#include "finding.h"

namespace {
#ifdef FIXED
constexpr unsigned Members = 1;
#else
constexpr unsigned Members = 8;
#endif

class Team {
  public:
    template <typename Body> void run(Body body) {
        std::vector<std::thread> threads;
        for (unsigned m = 1; m < Members; m++) threads.emplace_back(body, m);
        body(0);
        for (auto &thread : threads) thread.join();
    }

    void wait() {
        unsigned turn = turns.load();
        if (++arrived == Members) {
            arrived = 0;
            turns = turn + 1;
        } else {
            for (int spin = 0; turns.load(std::memory_order_acquire) == turn; spin++)
                if (spin > 20000) sched_yield();
        }
    }

  private:
    alignas(64) std::atomic<unsigned> arrived{0};
    alignas(64) std::atomic<unsigned> turns{0};
};

/* Relaxes a rod of 4,096 cells a number of times; each member has its part of it. */
void relax(Team &team, std::vector<float> (&rod)[2], unsigned member) {
    const std::size_t cells = rod[0].size() - 2;
    const std::size_t from = 1 + cells * member / Members, to = 1 + cells * (member + 1) / Members;
    for (unsigned step = 0; step < 200; step++, team.wait()) {
        const float *a = rod[step & 1].data();
        float *b = rod[~step & 1].data();
        for (std::size_t c = from; c < to; c++) b[c] = a[c] + .1f * (a[c - 1] - 2.f * a[c] + a[c + 1]);
    }
}
} // namespace

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    long solved[128] = {};
    auto serve = [&solved, until](unsigned t) {
        std::vector<float> rod[2] = {std::vector<float>(4098, 1.f), std::vector<float>(4098, 1.f)};
        for (; seconds() < until; solved[t * 64]++) {
            Team team;
            team.run([&team, &rod](unsigned member) { relax(team, rod, member); });
        }
    };
    std::thread other(serve, 1u);
    serve(0);
    other.join();
    printf("%.2f requests/s\n", static_cast<double>(solved[0] + solved[64]) / seconds());
}

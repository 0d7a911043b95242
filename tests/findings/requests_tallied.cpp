/* Two workers count their requests in neighbouring words of one line: looks like false sharing, but each counts in its
   registers and adds to its word once per 20,000 requests. ALIKE sets the words 256 bytes apart: 1.0 times the speed.
   */
#include <atomic>
#include <thread>
#include <vector>
#include "finding.h"

namespace {
#ifdef ALIKE
constexpr int Apart = 16;
#else
constexpr int Apart = 1;
#endif
struct Tally {
    std::atomic<uint64_t> requests, bytes;
};

template <typename Request> uint64_t checksum(Request request) {
    for (int round = 0; round < 6; round++) request = (request ^ (request >> 31)) * 0x9e3779b97f4a7c15u;
    return request;
}

void work(Tally &tally, double until, uint64_t seed) {
    while (seconds() < until) {
        uint64_t bytes = 0;
        for (int request = 0; request < 20000; request++) bytes += checksum(seed += 3) % 1500;
        tally.requests.fetch_add(20000, std::memory_order_relaxed);
        tally.bytes.fetch_add(bytes, std::memory_order_relaxed);
    }
}
} // namespace

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    std::vector<Tally> tallies(17);
    std::thread other(work, std::ref(tallies[Apart]), until, 1u);
    work(tallies[0], until, 2u);
    other.join();
    uint64_t requests = tallies[0].requests + tallies[Apart].requests;
    printf("%.2f million requests/s\n", static_cast<double>(requests) / 1e6 / until);
}

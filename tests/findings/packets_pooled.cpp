/* A router's pool of packet buffers behind one mutex: two threads take a buffer, fill in a header, and give it back.
   Cause: they wait for the lock. FIXED has a magazine of 64 buffers per thread and takes the lock to refill it.
   Measured: 6.3 times the speed where both threads run at once (one pair); 1.3 to 2 on a busy machine. */
#include <memory>
#include <mutex>
#include <thread>
#include <vector>
#include "finding.h"

namespace {
struct Packet {
    unsigned char header[64], payload[448];
};

class Pool {
  public:
    explicit Pool(int size) {
        for (int p = 0; p < size; p++) all.push_back(std::make_unique<Packet>()), free.push_back(all.back().get());
    }
    void take(std::vector<Packet *> &to, std::size_t number) {
        std::lock_guard<std::mutex> held(lock);
        for (std::size_t p = 0; p < number; p++) to.push_back(free.back()), free.pop_back();
    }
    void give(std::vector<Packet *> &from, std::size_t number) {
        std::lock_guard<std::mutex> held(lock);
        for (std::size_t p = 0; p < number; p++) free.push_back(from.back()), from.pop_back();
    }

  private:
    std::mutex lock;
    std::vector<std::unique_ptr<Packet>> all;
    std::vector<Packet *> free;
};

class Port {
  public:
    explicit Port(Pool &pool) : pool(pool) {}
    Packet *take() {
        if (mine.empty()) pool.take(mine, Magazine);
        Packet *packet = mine.back();
        mine.pop_back();
        return packet;
    }
    void give(Packet *packet) {
        mine.push_back(packet);
        if (mine.size() >= 2 * Magazine - 1) pool.give(mine, Magazine);
    }

  private:
#ifdef FIXED
    static constexpr std::size_t Magazine = 64;
#else
    static constexpr std::size_t Magazine = 1;
#endif
    Pool &pool;
    std::vector<Packet *> mine;
};

double route(Pool &pool, double until, uint64_t random) {
    Port port(pool);
    double routed = 0;
    uint64_t sum = 0;
    for (; seconds() < until; routed += 64)
        for (int p = 0; p < 64; p++) {
            Packet *packet = port.take();
            for (int w = 0; w < 8; w++) {
                uint64_t word = next_random(&random);
                memcpy(packet->header + 8 * w, &word, 8);
                sum += word >> 48;
            }
            port.give(packet);
        }
    keep_word(sum);
    return routed;
}
} // namespace

int main(int argc, char **argv) {
    double until = limit_of(argc, argv), routed[2] = {};
    Pool pool(1024);
    std::thread other([&] { routed[1] = route(pool, until, 3); });
    routed[0] = route(pool, until, 4);
    other.join();
    printf("%.2f million packets/s\n", (routed[0] + routed[1]) / 1e6 / until);
}

/* Training step of SGD with momentum over 24 million weights, split between two threads: each operator of the
   optimiser (weight decay, momentum, update, norm for the log) is a pass of its own over arrays of 96 MB. Cause:
   bandwidth. FIXED does the four in one pass, half of the bytes (20 for 40): 2.1 to 2.4 times the speed. Two threads
   are 1.45 times as fast as one. */
#include <array>
#include <thread>
#include "finding.h"

namespace {
typedef float Four __attribute__((vector_size(16)));
constexpr std::size_t Count = 24u << 20, Fours = Count / 4;

struct Parameters {
    Four *weight = static_cast<Four *>(huge(Count * 4));
    Four *gradient = static_cast<Four *>(huge(Count * 4));
    Four *momentum = static_cast<Four *>(huge(Count * 4));
};

template <typename Operator> void each(std::size_t first, std::size_t last, Operator apply) {
    for (std::size_t i = first; i < last; i += 4)
        for (std::size_t lane = 0; lane < 4; lane++) apply(i + lane, lane);
}

float step(Parameters &p, std::size_t first, std::size_t last) {
    Four *w = p.weight, *g = p.gradient, *m = p.momentum;
    Four norm[4] = {};
#ifdef FIXED
    each(first, last, [&norm, w, g, m](std::size_t i, std::size_t lane) {
        Four slope = g[i] + 1e-4f * w[i], moved = .9f * m[i] + slope, now = w[i] - 1e-3f * moved;
        m[i] = moved;
        w[i] = now;
        norm[lane] += now * now;
    });
#else
    each(first, last, [w, g](std::size_t i, std::size_t) { g[i] = g[i] + 1e-4f * w[i]; });
    each(first, last, [m, g](std::size_t i, std::size_t) { m[i] = .9f * m[i] + g[i]; });
    each(first, last, [m, w](std::size_t i, std::size_t) { w[i] = w[i] - 1e-3f * m[i]; });
    each(first, last, [&norm, w](std::size_t i, std::size_t lane) { norm[lane] += w[i] * w[i]; });
#endif
    const Four all = norm[0] + norm[1] + norm[2] + norm[3];
    return all[0] + all[1] + all[2] + all[3];
}
} // namespace

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    const unsigned threads = argc > 2 ? static_cast<unsigned>(atoi(argv[2])) : 2;
    Parameters parameters;
    for (std::size_t i = 0; i < Fours; i++) parameters.weight[i] = Four{.1f, .2f, .3f, .4f};
    std::array<long, 128> steps{};
    double began = seconds();
    std::array<std::thread, 2> team;
    for (unsigned t = 0; t < threads; t++)
        team[t] = std::thread([&parameters, &steps, began, until, threads, t] {
            for (; seconds() < began + until; steps[t * 64]++)
                keep(step(parameters, Fours / threads * t, Fours / threads * (t + 1)));
        });
    for (unsigned t = 0; t < threads; t++) team[t].join();
    double done = static_cast<double>(steps[0] + steps[64]) / threads * static_cast<double>(Count);
    printf("%.2f million weights/s\n", done / 1e6 / (seconds() - began));
}

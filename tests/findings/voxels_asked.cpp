/* A tree of voxels as film studios use it: root, inner nodes, leaves of 8 x 8 x 8; all in the second-level cache.
   The mass and the moments of a cloud are summed by asking for each voxel's value, and each question walks from the
   root. Cause: the same loads again per voxel. FIXED asks for a leaf's row of eight voxels at once. Measured: 3.0 to
   3.9 times the speed. */
#include <array>
#include <memory>
#include "finding.h"

namespace {
struct Leaf {
    std::array<float, 512> values{};
};
struct Inner {
    std::array<std::unique_ptr<Leaf>, 64> leaves;
};

class Grid {
  public:
    [[gnu::noinline]] float value(unsigned x, unsigned y, unsigned z) const {
        const Inner *inner = inner_at(x, y, z);
        if (inner == nullptr) return background;
        const Leaf *leaf = inner->leaves[cell(x >> 3, y >> 3, z >> 3)].get();
        return leaf == nullptr ? background : leaf->values[(z & 7) << 6 | (y & 7) << 3 | (x & 7)];
    }
    [[gnu::noinline]] const float *row(unsigned x, unsigned y, unsigned z) const {
        const Inner *inner = inner_at(x, y, z);
        const Leaf *leaf = inner == nullptr ? nullptr : inner->leaves[cell(x >> 3, y >> 3, z >> 3)].get();
        return leaf == nullptr ? empty.data() : &leaf->values[(z & 7) << 6 | (y & 7) << 3];
    }
    void set(unsigned x, unsigned y, unsigned z, float value) {
        auto &inner = root[cell(x >> 5, y >> 5, z >> 5)];
        if (!inner) inner = std::make_unique<Inner>();
        auto &leaf = inner->leaves[cell(x >> 3, y >> 3, z >> 3)];
        if (!leaf) leaf = std::make_unique<Leaf>();
        leaf->values[(z & 7) << 6 | (y & 7) << 3 | (x & 7)] = value;
    }

  private:
    static unsigned cell(unsigned x, unsigned y, unsigned z) { return (z & 3) << 4 | (y & 3) << 2 | (x & 3); }
    const Inner *inner_at(unsigned x, unsigned y, unsigned z) const { return root[cell(x >> 5, y >> 5, z >> 5)].get(); }
    std::array<std::unique_ptr<Inner>, 64> root;
    float background = 0.f;
    std::array<float, 8> empty{};
};
} // namespace

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    Grid grid;
    constexpr unsigned N = 56;
    for (unsigned z = 0; z < N; z++)
        for (unsigned y = 0; y < N; y++)
            for (unsigned x = 0; x < N; x++)
                if ((x ^ y ^ z) & 15) grid.set(x, y, z, static_cast<float>(x * y % 17) * .1f);
    double begun = seconds(), asked = 0;
    for (; seconds() < until; asked += N * N * N) {
        float mass[4] = {}, moment[4] = {};
        for (unsigned z = 0; z < N; z++)
            for (unsigned y = 0; y < N; y++)
                for (unsigned x = 0; x < N; x += 8) {
#ifdef FIXED
                    const float *row = grid.row(x, y, z);
                    for (unsigned i = 0; i < 8; i++)
                        mass[i & 3] += row[i], moment[i & 3] += row[i] * static_cast<float>(x + i);
#else
                    for (unsigned i = 0; i < 8; i++) {
                        float value = grid.value(x + i, y, z);
                        mass[i & 3] += value, moment[i & 3] += value * static_cast<float>(x + i);
                    }
#endif
                }
        keep(mass[0] + mass[3] + moment[1] + moment[2]);
    }
    printf("%.1f million voxels/s\n", asked / 1e6 / (seconds() - begun));
}

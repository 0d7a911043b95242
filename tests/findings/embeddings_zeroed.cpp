/* A recommender makes its table of embeddings at the start, 2 GB of zeros, of which it then trains a few: with pages of
   4 KiB half a million faults come first. Cause: these. FIXED asks for huge pages: the start takes half the time. */
#include <memory>
#include <numeric>
#include <vector>
#include "finding.h"

namespace {
template <typename T> struct Pages {
    using value_type = T;
    T *allocate(std::size_t count) {
        void *at = std::aligned_alloc(2u << 20, ((count * sizeof(T) - 1) / (2u << 20) + 1) * (2u << 20));
        if (at == nullptr) throw std::bad_alloc();
#ifdef FIXED
        madvise(at, count * sizeof(T), MADV_HUGEPAGE);
#endif
        return static_cast<T *>(at);
    }
    void deallocate(T *at, std::size_t) { std::free(at); }
};

class Embeddings {
  public:
    static constexpr std::size_t Width = 64;
    explicit Embeddings(std::size_t rows) : values(rows * Width) {}
    void step(std::size_t row, float gradient) {
        float *at = &values[row * Width];
        for (std::size_t i = 0; i < Width; i++) at[i] -= gradient * (0.5f + at[i]);
    }
    double norm(std::size_t row) const {
        auto from = values.begin() + static_cast<std::ptrdiff_t>(row * Width);
        return std::inner_product(from, from + Width, from, 0.0);
    }

  private:
    std::vector<float, Pages<float>> values;
};
} // namespace

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    Embeddings embeddings(8'000'000);
    double begun = seconds();
    uint64_t random = 99, steps = 0;
    for (; seconds() < until; steps += 1000)
        for (int i = 0; i < 1000; i++) embeddings.step(next_random(&random) % 1000, 1e-3f);
    keep(embeddings.norm(7));
    printf("start %.2f s, then %.2f million steps/s\n", begun, static_cast<double>(steps) / 1e6 / (seconds() - begun));
}

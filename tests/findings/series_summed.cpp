/* Array arithmetic as in an interpreter for numerical work: a sum, a product, each a new array of 48 MB, and the old
   ones are freed, which maps and unmaps them. Cause: the pages of each result are touched anew. FIXED keeps the
   freed arrays for the next results. Measured: 3.4 to 5.4 times the speed. */
#include <memory>
#include <utility>
#include <vector>
#include "finding.h"

namespace {
constexpr std::size_t Size = 6000000;

using Memory = std::unique_ptr<double[]>;
std::vector<Memory> spare;

class Series {
  public:
    explicit Series(double value) : Series() {
        for (std::size_t i = 0; i < Size; i++) at[i] = value;
    }
    Series(Series &&other) = default;
    Series &operator=(Series &&other) {
        std::swap(at, other.at);
        return *this;
    }
    ~Series() {
#ifdef FIXED
        if (at) spare.push_back(std::move(at));
#endif
    }
    template <typename Operation> static Series of(const Series &a, const Series &b, Operation operation) {
        Series result;
        double *__restrict to = result.at.get();
        const double *x = a.at.get(), *y = b.at.get();
        for (std::size_t i = 0; i < Size; i++) to[i] = operation(x[i], y[i]);
        return result;
    }
    double operator[](std::size_t i) const { return at[i]; }

  private:
    Series() {
        if (spare.empty()) at.reset(new double[Size]);
        else at = std::move(spare.back()), spare.pop_back();
    }
    Memory at;
};

Series operator+(const Series &a, const Series &b) {
    return Series::of(a, b, [](double x, double y) { return x + y; });
}
Series operator*(const Series &a, const Series &b) {
    return Series::of(a, b, [](double x, double y) { return x * y; });
}
} // namespace

int main(int argc, char **argv) {
    double until = limit_of(argc, argv), values = 0;
    Series place(1.0), speed(.5), step(1e-3), drag(.999), pull(-.01);
    for (; seconds() < until; values += 5 * Size) {
        speed = speed * drag + pull * place;
        place = place + step * speed;
        keep(place[99]);
    }
    printf("%.1f million values/s\n", values / 1e6 / seconds());
}

/* Two threads that take, for each request, a std::shared_ptr to the current model, counting one word up and down: but
   a request is a scoring by 2,000 weights, microseconds. ALIKE takes the pointer once: 1.00 times the speed. */
#include <memory>
#include <thread>
#include <vector>
#include "finding.h"

namespace {
struct Model {
    std::vector<float> weights;
};

class Registry {
  public:
    explicit Registry(std::shared_ptr<const Model> model) : model(std::move(model)) {}
    std::shared_ptr<const Model> current() const { return model; }

  private:
    std::shared_ptr<const Model> model;
};

float score(const Model &model, std::vector<float> &features, uint64_t request) {
    float sum = 0.f, scale = 1.f + static_cast<float>(request & 7);
    for (std::size_t f = 0; f < features.size(); f++) {
        float x = features[f] * scale;
        sum += x / (1.f + (x < 0.f ? -x : x)) * model.weights[f];
    }
    return sum;
}
} // namespace

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    auto model = std::make_shared<Model>();
    for (int w = 0; w < 2000; w++) model->weights.push_back(static_cast<float>(w % 17) - 8.f);
    const Registry registry(std::move(model));
    long served[128] = {};
    auto serve = [&registry, &served, until](unsigned t) {
        std::vector<float> features(2000, .5f);
        uint64_t random = 21 + t;
        float sum = 0.f;
#ifdef ALIKE
        const auto held = registry.current();
#endif
        for (; seconds() < until; served[t * 64] += 20)
            for (int r = 0; r < 20; r++) {
#ifndef ALIKE
                const auto held = registry.current();
#endif
                sum += score(*held, features, next_random(&random));
            }
        keep(sum);
    };
    std::thread other(serve, 1u);
    serve(0);
    other.join();
    printf("%.2f thousand requests/s\n", static_cast<double>(served[0] + served[64]) / 1e3 / until);
}

/* Rays marched through a scene of shapes: each step asks each shape for its centre, size and bulge by accessors in
   another object, though they do not change: looks like repeated loads, but a chain of roots and divisions per step
   takes the time, and the loads overlap with it. ALIKE copies the shapes into an array before each ray. Measured:
   1.00 times the speed (per CPU time). */
#include <array>
#include <cmath>
#include <memory>
#include <vector>
#include "finding.h"

namespace {
struct Vector {
    float x, y, z;
};

class Shape {
  public:
    Shape(Vector centre, float size, float bulge) : middle(centre), radius(size), swell(bulge) {}
    const Vector &centre() const { return middle; }
    float size() const { return radius; }
    float bulge() const { return swell; }

  private:
    Vector middle;
    float radius, swell;
};

class Scene {
  public:
    void add(Shape shape) { shapes.push_back(std::make_unique<Shape>(shape)); }
    std::size_t count() const { return shapes.size(); }
    const Shape &shape(std::size_t i) const { return *shapes[i]; }

  private:
    std::vector<std::unique_ptr<Shape>> shapes;
};

float distance(const Shape &shape, Vector p, float above) {
    const Vector &c = shape.centre();
    float dx = p.x - c.x, dy = p.y - c.y, dz = p.z - c.z, d = sqrtf(dx * dx + dy * dy + dz * dz) - shape.size();
    float blend = shape.bulge() / (shape.bulge() + fabsf(d - above));
    return sqrtf((d < above ? d * d : above * above) + 1e-4f) - blend * .01f;
}

float march(const Scene &scene, Vector way) {
#ifdef ALIKE
    std::array<Shape, 5> copies{scene.shape(0), scene.shape(1), scene.shape(2), scene.shape(3), scene.shape(4)};
    auto shape = [&copies](std::size_t i) -> const Shape & { return copies[i]; };
#else
    auto shape = [&scene](std::size_t i) -> const Shape & { return scene.shape(i); };
#endif
    float along = 0.f;
    for (int step = 0; step < 48; step++) {
        Vector p{way.x * along, way.y * along, way.z * along};
        float nearest = 1e3f;
        for (std::size_t s = 0; s < scene.count(); s++) nearest = distance(shape(s), p, nearest);
        along += .5f * nearest;
    }
    return along;
}
} // namespace

int main(int argc, char **argv) {
    double until = limit_of(argc, argv), rays = 0;
    Scene scene;
    for (int s = 0; s < 5; s++) scene.add(Shape({s * 2.f - 4.f, s % 2 * 1.f, 9.f + s}, 1.f + .1f * s, .3f));
    float sum = 0.f;
    for (; seconds() < until; rays += 64)
        for (int x = 0; x < 64; x++) sum += march(scene, {(x - 32) * .015f, .01f, 1.f});
    keep(sum);
    printf("%.2f thousand rays/s\n", rays / 1e3 / until);
}

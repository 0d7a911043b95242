// What types say about memory accesses in C++: base classes, templates, name spaces, containers, virtual functions,
// exceptions. The marks are as in typed_accesses.c.

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

namespace world {

struct point {
    double x, y;
};

class body {
public:
    virtual ~body() = default;
    virtual double weight() const { return mass; } // type: world::body.mass world::planet.mass world::body._vptr.body world::planet._vptr.body
    double mass = 1;
    point at{ 1, 2 };
};

class planet : public body {
public:
    int moons = 0;
    long name[2] = { 3, 4 };
};

template <typename T> struct chain {
    T value;
    chain *next;
};

}

#define APART __attribute__((noinline, noclone))

APART static double push(world::body *b, double force)
{
    b->at.x += force / b->mass;                  // type: world::body.at.x world::body.mass
    return b->at.y;                              // type: world::body.at.y
}

APART static long orbit(world::planet &p)
{
    p.moons++;                                   // type: world::planet.moons
    p.mass *= 2;                                 // type: world::planet.mass world::body.mass
    return p.name[1];                            // type: world::planet.name[] long~int
}

template <typename T> APART static T sum(const world::chain<T> *links)
{
    T total = 0;
    for (; links; links = links->next)           // type: world::chain<double>.next world::chain<int>.next
        total += links->value;                   // type: world::chain<double>.value world::chain<int>.value
    return total;
}

APART static double centre(const std::vector<world::point> &points)
{
    double total = 0;
    for (const world::point &one : points)
        total += one.x;                          // type: world::point.x
    return total;
}

APART static double own(std::unique_ptr<world::planet> &held)
{
    return held->mass + held->moons;             // type: world::planet.mass world::body.mass world::planet.moons std::unique_ptr<world::planet,~std::default_delete<world::planet>~>._M_t._M_t._M_head_impl
}

APART static double careful(world::body *b, int depth)
{
    try {
        if (depth == 0)
            throw std::runtime_error("deep");
        return careful(b, depth - 1) + b->mass;  // type: world::body.mass
    } catch (const std::runtime_error &) {
        b->mass += 1;                            // type: world::body.mass
        return b->at.x;                          // type: world::body.at.x
    }
}

APART static double ask(const world::body *b)
{
    return b->weight();                          // type: __vtbl_ptr_type world::body._vptr.body world::planet._vptr.body
}

// end of marks
int main()
{
    world::planet earth;
    world::chain<double> last{ 1.5, nullptr }, first{ 2.5, &last };
    world::chain<int> one{ 3, nullptr };
    std::vector<world::point> points(10);
    auto held = std::make_unique<world::planet>();
    double total = push(&earth, 3) + orbit(earth) + sum(&first) + sum(&one) + centre(points);
    total += own(held) + careful(&earth, 3) + ask(&earth);
    std::printf("%g\n", total);
}

/* Shortest paths of a road map by Bellman and Ford: all 1.5 million roads are relaxed in passes. A road is a record
   of 128 bytes with name, surface and bounds, and a pass reads 12 of them; the junctions' distances stay in the
   cache. Cause: little of each line is used. FIXED has what the passes read in an array of its own. Measured: 6 to 9
   times the speed. */
#include "finding.h"

namespace {
constexpr uint32_t Roads = 1500000, Junctions = 60000;

struct Ends {
    uint32_t from, to;
    float length;
};
struct Facts {
    uint8_t lanes = 1, surface = 0, limit = 50, flags = 0;
    uint64_t way = 0;
    float bounds[4] = {}, curvature = 0.f, slope = 0.f;
    char name[72] = {};
};
struct Road : Ends, Facts {};

template <typename T> class Table {
  public:
    explicit Table(std::size_t size) : rows(static_cast<T *>(huge(size * sizeof(T)))), size(size) {}
    T *begin() const { return rows; }
    T *end() const { return rows + size; }
    T &operator[](std::size_t i) const { return rows[i]; }

  private:
    T *rows;
    std::size_t size;
};

template <typename Rows> bool relax(const Rows &roads, float *distance) {
    bool changed = false;
    for (const auto &road : roads) {
        float through = distance[road.from] + road.length;
        if (through < distance[road.to]) distance[road.to] = through, changed = true;
    }
    return changed;
}
} // namespace

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
#ifdef FIXED
    Table<Ends> roads(Roads);
    Table<Facts> facts(Roads);
#else
    Table<Road> roads(Roads);
#endif
    uint64_t random = 3;
    for (uint32_t r = 0; r < Roads; r++) {
        uint32_t from = static_cast<uint32_t>(uint64_t{r} * Junctions / Roads);
        uint32_t to = (from + Junctions + static_cast<uint32_t>(next_random(&random) % 400) - 250) % Junctions;
        roads[r].from = from, roads[r].to = to, roads[r].length = 1.f + static_cast<float>(next_random(&random) % 64);
    }
    static float distance[Junctions];
    double begun = seconds(), relaxed = 0;
    for (uint32_t source = 0; seconds() < until; source += 7919) {
        for (float &d : distance) d = 1e9f;
        distance[source % Junctions] = 0.f;
        for (bool more = true; more && seconds() < until; relaxed += Roads) more = relax(roads, distance);
    }
    printf("%.1f million roads/s\n", relaxed / 1e6 / (seconds() - begun));
}

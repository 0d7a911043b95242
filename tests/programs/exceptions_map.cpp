// Throws through 40 recursive frames that each hold a std::map and a string, and catches at changing depths: a wrong
// return address on the stack, or code in pages that the unwinder does not know, ends in std::terminate.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>

static unsigned long sum = 1;
static long alive, caught;

struct Counted {
    Counted() { alive++; }
    ~Counted() { alive--; }
};

__attribute__((noinline)) static long descend(long depth, long target)
{
    Counted counted;
    std::map<long, std::string> held;
    for (long n = 0; n < 4; n++)
        held[(depth * 7 + n * 3) % 11] = std::to_string(depth * n);
    if (depth == 40)
        throw std::runtime_error(held.begin()->second + "/" + std::to_string(target));
    try {
        return descend(depth + 1, target) + (long)held.size();
    } catch (const std::runtime_error &error) {
        if (depth != target)
            throw;
        caught++;
        for (const char *at = error.what(); *at; at++)
            sum = sum * 31 + (unsigned long)*at;
        return (long)held.size();
    }
}

int main(int argc, char **argv)
{
    const long rounds = argc == 3 ? std::atol(argv[2]) : 8000;
    std::map<unsigned long, long> seen;
    for (long round = 0; round < rounds; round++) {
        sum += (unsigned long)descend(0, round % 39);
        seen[sum % 4099] += round;
    }
    for (const auto &[key, value] : seen)
        sum = sum * 1099511628211ul + key + (unsigned long)value;
    const bool correct = caught == rounds && alive == 0;
    std::printf("caught=%ld\nalive=%ld\nchecksum=%016lx\nresult_correct=%s\nEXIT-SUCCESS\n", caught, alive, sum,
                correct ? "yes" : "no");
    return correct ? 0 : 1;
}

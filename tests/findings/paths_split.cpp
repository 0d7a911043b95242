/* A web server's log is split into fields, each a string of its own, longer than what a string holds without memory;
   the fields are hashed and freed line by line. All in the cache. Cause: the allocations. FIXED takes views of the
   line: 2.5 times the speed. */
#include <string>
#include <string_view>
#include <vector>
#include "finding.h"

namespace {
#ifdef FIXED
using Field = std::string_view;
#else
using Field = std::string;
#endif

std::vector<Field> split(std::string_view line, char at) {
    std::vector<Field> fields;
    for (std::size_t from = 0; from <= line.size();) {
        std::size_t to = line.find(at, from);
        if (to == std::string_view::npos) to = line.size();
        fields.emplace_back(line.substr(from, to - from));
        from = to + 1;
    }
    return fields;
}

uint64_t weight(const Field &field) {
    return field.size() * 31 + static_cast<unsigned char>(field.front()) + static_cast<unsigned char>(field.back());
}
} // namespace

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    std::vector<std::string> log;
    for (int line = 0; line < 200; line++) {
        std::string number = std::to_string(1000000 + line * 7919);
        log.push_back("/images/products/" + number + "/large.jpeg;https://shop.example.com/search?q=" + number +
                      ";2024-11-22T20:10:" + number + ";session=" + number + number + number +
                      ";text/html,application/xhtml+xml;gzip-deflate-br-identity");
    }
    uint64_t sum = 0, lines = 0;
    while (seconds() < until)
        for (const auto &line : log) {
            for (const Field &field : split(line, ';')) sum += weight(field);
            lines++;
        }
    keep_word(sum);
    printf("%.2f million lines/s\n", static_cast<double>(lines) / 1e6 / seconds());
}

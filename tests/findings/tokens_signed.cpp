/* A server that checks tokens: each request makes a dozen small blocks (strings in a std::map) and frees them, but the
   time goes into its signature, a hash of 8 KB of body in rounds. ALIKE takes the blocks from a buffer on the stack:
   1.00 times the speed. */
#include <map>
#include <memory_resource>
#include <string>
#include <string_view>
#include "finding.h"

namespace {
using String = std::pmr::string;
using Claims = std::pmr::map<String, String>;

Claims parsed(std::string_view token, std::pmr::memory_resource *memory) {
    Claims claims(memory);
    while (!token.empty()) {
        const std::size_t equals = token.find('='), end = token.find(';');
        claims.emplace(token.substr(0, equals), token.substr(equals + 1, end - equals - 1));
        token.remove_prefix(end + 1);
    }
    return claims;
}

uint32_t signature(std::string_view body, uint32_t key) {
    uint32_t a = key, b = 0x9e3779b9u, c = 0x85ebca6bu;
    for (std::size_t i = 0; i + 4 <= body.size(); i += 4) {
        uint32_t word;
        memcpy(&word, body.data() + i, 4);
        a += word;
        for (int round = 0; round < 4; round++) {
            a += b, c ^= a, c = c << 16 | c >> 16;
            b += c, a ^= b, a = a << 7 | a >> 25;
        }
    }
    return a ^ b ^ c;
}
} // namespace

int main(int argc, char **argv) {
    double until = limit_of(argc, argv);
    const std::string token = "subject=someone-with-a-long-name;issuer=https://accounts.example.org/;"
                              "audience=the-service-that-answers-here;scope=read write administrate;nonce=81fe0a93bb57c2;";
    const std::string body(8192, 'b');
    long requests = 0;
    uint64_t sum = 0;
    for (; seconds() < until; requests += 10)
        for (uint32_t r = 0; r < 10; r++) {
#ifdef ALIKE
            char room[4096];
            std::pmr::monotonic_buffer_resource memory(room, sizeof room);
            const Claims claims = parsed(token, &memory);
#else
            const Claims claims = parsed(token, std::pmr::new_delete_resource());
#endif
            sum += claims.size() + claims.begin()->second.size() + signature(body, r);
        }
    keep_word(sum);
    printf("%.2f thousand requests/s\n", static_cast<double>(requests) / 1e3 / seconds());
}

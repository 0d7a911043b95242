/* A server that closes idle connections: each request puts its connection's timer off by a minute, with a call to
   the kernel, and is parsed, which takes less. Cause: the system calls. FIXED notes the deadline in memory, and
   would set the timer again when it fires too early. Measured: 7 to 10 times the speed. */
#include <sys/timerfd.h>
#include "finding.h"

enum { Connections = 200 };

struct connection {
    int timer;
    double deadline;
    uint64_t requests, bytes;
};

static unsigned parse(const char *request, struct connection *connection) {
    unsigned fields = 0;
    uint64_t length = 0;
    for (const char *at = request; *at != 0; at++) {
        if (*at == ':') fields++;
        if (*at >= '0' && *at <= '9') length = length * 10 + (uint64_t)(*at - '0');
    }
    connection->requests++, connection->bytes += length;
    return fields;
}

static void put_off(struct connection *connection) {
#ifdef FIXED
    connection->deadline = seconds() + 60.0;
#else
    struct itimerspec in_a_minute = {.it_value.tv_sec = 60};
    if (timerfd_settime(connection->timer, 0, &in_a_minute, NULL) != 0) exit(2);
#endif
}

int main(int argc, char **argv) {
    double until = limit_of(argc, argv), served = 0;
    static struct connection connections[Connections];
    for (int c = 0; c < Connections; c++)
        if ((connections[c].timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK)) < 0) return 2;
    static const char request[] = "GET /items/17 HTTP/1.1\r\nhost: shop\r\naccept: text/html\r\ncookie: s=41\r\n\r\n";
    uint64_t random = 8, fields = 0;
    for (; seconds() < until; served += 100)
        for (int r = 0; r < 100; r++) {
            struct connection *connection = &connections[next_random(&random) % Connections];
            fields += parse(request, connection);
            put_off(connection);
        }
    keep_word(fields);
    printf("%.2f million requests/s\n", served / 1e6 / until);
}

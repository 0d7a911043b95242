/* Recursive Fibonacci: many short calls, no memory. fib(40) = 102334155; it makes 2 * fib(n + 1) - 1 calls. */
#include "known.h"

SEPARATE long fib(long n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

int main(int argc, char **argv)
{
    long n = 40;
    known_options(argc, argv, &(struct known_option){"--n", &n, 0, 60}, 1);
    long found = fib(n), last = 0, next = 1;
    for (long step = 0; step < n; step++) {
        long sum = last + next;
        last = next;
        next = sum;
    }
    printf("n=%ld\nfib=%ld\ncalls=%ld\nresult_correct=%s\n", n, found, 2 * next - 1, found == last ? "yes" : "no");
    known_end();
    return found == last ? 0 : 1;
}

/*
 * Machine code that changes: a function in a writable and executable page whose constant is overwritten before each
 * call, and a page that is written, made executable by mprotect, called, and written anew. Who keeps a copy of the
 * code gets the sums of yesterday.
 */
#include "checked.h"

#include <sys/mman.h>

typedef uint64_t (*function)(uint64_t);

/* mov eax, CONSTANT; 1: add rax, rdi; dec edi; jnz 1b; ret */
static const unsigned char code[] = {0xb8, 0, 0, 0, 0, 0x48, 0x01, 0xf8, 0xff, 0xcf, 0x75, 0xf9, 0xc3};

static void write_code(unsigned char *page, uint32_t constant)
{
    memcpy(page, code, sizeof code);
    memcpy(page + 1, &constant, sizeof constant);
    __builtin___clear_cache((char *)page, (char *)page + sizeof code);
}

static unsigned char *map(int protection)
{
    void *page = mmap(NULL, PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        known_impossible("map a page for code");
    return page;
}

int main(int argc, char **argv)
{
    long rounds = checked_rounds(argc, argv, 300000);
    unsigned char *open = map(PROT_READ | PROT_WRITE | PROT_EXEC), *guarded = map(PROT_READ | PROT_WRITE);
    uint64_t sum = 1, wrong = 0;
    for (uint64_t round = 0; round < (uint64_t)rounds; round++) {
        write_code(open, (uint32_t)round);
        uint64_t steps = 2000, found = ((function)(void *)open)(steps);
        wrong += found != round + steps * (steps + 1) / 2;
        sum = sum_of(sum, found);
        if (round % 16)
            continue;
        mprotect(guarded, PAGE, PROT_READ | PROT_WRITE);
        write_code(guarded, (uint32_t)round + 1);
        mprotect(guarded, PAGE, PROT_READ | PROT_EXEC);
        wrong += ((function)(void *)guarded)(steps) != found + 1;
    }
    printf("wrong=%llu\n", (unsigned long long)wrong);
    return checked_end(sum, wrong == 0);
}

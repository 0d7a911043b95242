/*
 * Hand-written leaves: flags that live over jumps, calls, returns and loops (a carry chain, all six flags over an
 * indirect jump), and 128 bytes under the stack pointer that belong to the function (System V AMD64 ABI 3.2.2, the
 * red zone). Each is compared with the same in C.
 */
#include "checked.h"

uint64_t add_words(uint64_t *to, const uint64_t *a, const uint64_t *b, long count);
uint64_t flags_of_compare(uint32_t a, uint32_t b);
uint64_t red_zone(uint64_t seed, long count);

__asm__(".text\n"
        "add_words:\n"
        "  xorl %r8d, %r8d\n" /* and the carry */
        "1: movq (%rsi,%r8,8), %rax\n"
        "  adcq (%rdx,%r8,8), %rax\n"
        "  movq %rax, (%rdi,%r8,8)\n"
        "  leaq 1(%r8), %r8\n"
        "  leaq -1(%rcx), %rcx\n"
        "  jrcxz 2f\n"
        "  jmp 1b\n"
        "2: setc %al\n"
        "  movzbl %al, %eax\n"
        "  ret\n"
        "flags_of_compare:\n"
        "  cmpl %esi, %edi\n"
        "  jmp 1f\n"
        "2: call 3f\n"
        "  leaq 4f(%rip), %rax\n"
        "  jmp *%rax\n"
        "3: ret\n"
        "1: jmp 2b\n"
        "4: pushfq\n"
        "  popq %rax\n"
        "  andl $0x8d5, %eax\n" /* OF SF ZF AF PF CF */
        "  ret\n"
        "red_zone:\n"
        "  movq %rdi, -128(%rsp)\n"
        "  movq $0, -8(%rsp)\n"
        "  movq %rsi, %rcx\n"
        "1: jrcxz 3f\n"
        "  movq -128(%rsp), %rax\n"
        "  addq %rax, -8(%rsp)\n"
        "  rolq $7, -128(%rsp)\n"
        "  xorq %rcx, -128(%rsp)\n"
        "  decq %rcx\n"
        "  leaq 1b(%rip), %rdx\n"
        "  testb $1, %cl\n"
        "  jz 2f\n"
        "  jmp 1b\n"
        "2: jmp *%rdx\n"
        "3: movq -8(%rsp), %rax\n"
        "  ret\n");

static uint64_t flags_in_c(uint32_t a, uint32_t b)
{
    uint32_t d = a - b;
    int over = (int)(((a ^ b) & (a ^ d)) >> 31), half = ((a ^ b ^ d) >> 4) & 1;
    return (uint64_t)(over << 11 | (int)(d >> 31) << 7 | (d == 0) << 6 | half << 4 |
                      !__builtin_parity(d & 255) << 2 | (a < b));
}

int main(int argc, char **argv)
{
    long rounds = checked_rounds(argc, argv, 2000000), wrong = 0;
    uint64_t state = 88172645463325252u, sum = 1, a[24], b[24], to[24];
    for (long round = 0; round < rounds; round++) {
        unsigned carry = 0;
        for (int n = 0; n < 24; n++) {
            a[n] = next_random(&state);
            b[n] = round % 3 ? ~a[n] + (uint64_t)(n == 0) : next_random(&state);
        }
        uint64_t found = add_words(to, a, b, 24);
        for (int n = 0; n < 24; n++) {
            unsigned __int128 both = (unsigned __int128)a[n] + b[n] + carry;
            carry = (unsigned)(both >> 64);
            wrong += to[n] != (uint64_t)both;
        }
        wrong += found != carry;
        uint32_t left = (uint32_t)state, right = round % 2 ? left + (uint32_t)(round % 5) - 2 : (uint32_t)a[3];
        wrong += flags_of_compare(left, right) != flags_in_c(left, right);
        uint64_t zone = state, total = 0;
        for (uint64_t n = 60; n > 0; n--) {
            total += zone;
            zone = (zone << 7 | zone >> 57) ^ n;
        }
        wrong += red_zone(state, 60) != total;
        sum = sum_of(sum, total + to[5]);
    }
    printf("wrong=%ld\n", wrong);
    return checked_end(sum, wrong == 0);
}

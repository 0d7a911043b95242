/*
 * Instructions whose addresses or effects are easy to get wrong when code is moved: pop and push through rsp, enter,
 * ret with a count, xlat, loop, bit strings, cmpxchg16b, the address that call pushes, the rip that a system call
 * leaves in rcx (Intel SDM 2, SYSCALL), fs. Each function returns what C expects of it.
 */
#include "checked.h"

#define FUNCTION(name, text) \
    uint64_t name(uint64_t a, uint64_t b); \
    __asm__(".text\n" #name ":\n" text "ret\n")

FUNCTION(pop_to_stack, "pushq %rdi\n pushq %rsi\n popq (%rsp)\n popq %rax\n");
FUNCTION(push_from_stack, "pushq %rdi\n pushq %rsi\n pushq 8(%rsp)\n popq %rax\n popq %rdx\n popq %rcx\n subq %rdx, %rax\n");
FUNCTION(push_own_pointer, "pushq %rsp\n popq %rax\n subq %rsp, %rax\n");
FUNCTION(enter_leave, "enter $32, $0\n movq %rdi, -8(%rbp)\n movq %rsi, -32(%rsp)\n movq -8(%rbp), %rax\n leave\n");
FUNCTION(return_and_drop, "pushq %rdi\n pushq %rsi\n call 1f\n jmp 2f\n"
                          "1: movq 8(%rsp), %rax\n xorq 16(%rsp), %rax\n ret $16\n2:\n");
FUNCTION(translate, "pushq %rbx\n leaq letters(%rip), %rbx\n movzbl %dil, %eax\n andb $15, %al\n xlatb\n popq %rbx\n");
FUNCTION(count_down, "movzbl %dil, %ecx\n incl %ecx\n xorl %eax, %eax\n1: addq %rcx, %rax\n loop 1b\n");
FUNCTION(set_bit, "btsq %rsi, (%rdi)\n setc %al\n movzbl %al, %eax\n");
FUNCTION(own_address, "call 1f\n1: popq %rax\n leaq 1b(%rip), %rcx\n subq %rcx, %rax\n");
FUNCTION(address_after_call, "movl $39, %eax\n syscall\n1: leaq 1b(%rip), %rax\n subq %rcx, %rax\n"); /* 39: getpid */
FUNCTION(thread_pointer, "movq %fs:0, %rax\n");
FUNCTION(through_table, "andl $3, %edi\n leaq 9f(%rip), %rdx\n movslq (%rdx,%rdi,4), %rax\n addq %rdx, %rax\n jmp *%rax\n"
                        "9: .long 1f-9b, 2f-9b, 3f-9b, 4f-9b\n"
                        "1: movl $11, %eax\n ret\n2: movl $22, %eax\n ret\n3: movl $33, %eax\n ret\n4: movl $44, %eax\n");
FUNCTION(exchange_16, "pushq %rbx\n movq %rsi, %rbx\n movq (%rdi), %rax\n movq 8(%rdi), %rdx\n leaq 1(%rsi), %rcx\n"
                      "lock cmpxchg16b (%rdi)\n setz %al\n movzbl %al, %eax\n popq %rbx\n");
FUNCTION(x87_product, "pushq %rdi\n fildl (%rsp)\n pushq %rsi\n fimull (%rsp)\n fistpll (%rsp)\n popq %rax\n popq %rdx\n");
FUNCTION(call_through_memory, "leaq 1f(%rip), %rax\n pushq %rax\n movq %rdi, %rax\n call *(%rsp)\n popq %rcx\n ret\n"
                              "1: addq %rsi, %rax\n");
__asm__(".section .rodata\nletters: .ascii \"zyxwvutsrqponmlk\"\n.text\n");

int main(int argc, char **argv)
{
    long rounds = checked_rounds(argc, argv, 2000000), wrong[16] = {0};
    uint64_t sum = 1, state = 88172645463325252u, bits[64] = {0};
    _Alignas(16) uint64_t pair[2] = {0, 0};
    for (long round = 0; round < rounds; round++) {
        uint64_t a = next_random(&state), b = next_random(&state), bit = b % 2048;
        wrong[0] += pop_to_stack(a, b) != b;
        wrong[1] += push_from_stack(a, b) != a - b;
        wrong[2] += push_own_pointer(a, b) != 0;
        wrong[3] += enter_leave(a, b) != a;
        wrong[4] += return_and_drop(a, b) != (a ^ b);
        wrong[5] += (translate(a, b) & 255) != (uint64_t)('z' - (int)(a & 15));
        wrong[6] += count_down(a, b) != ((a & 255) + 1) * ((a & 255) + 2) / 2;
        /* The bit number is signed and reaches outside of the word (Intel SDM 2, BTS). */
        uint64_t was = bits[32 + ((int64_t)bit - 1024) / 64 - ((int64_t)bit - 1024 < 0 && bit % 64)] >> (bit % 64) & 1;
        wrong[7] += set_bit((uint64_t)&bits[32], bit - 1024) != was;
        wrong[8] += own_address(a, b) != 0;
        wrong[9] += round % 64 == 0 && address_after_call(a, b) != 0;
        wrong[10] += thread_pointer(a, b) != (uint64_t)__builtin_thread_pointer();
        wrong[11] += through_table(a, b) != 11 * ((a & 3) + 1);
        wrong[12] += exchange_16((uint64_t)pair, b) != 1 || pair[0] != b || pair[1] != b + 1;
        wrong[13] += x87_product(a & 0xffff, b & 0xffff) != (a & 0xffff) * (b & 0xffff);
        wrong[14] += call_through_memory(a, b) != a + b;
        sum = sum_of(sum, a ^ was);
    }
    long all = 0;
    for (int n = 0; n < 15; n++) {
        printf("wrong_%d=%ld\n", n, wrong[n]);
        all += wrong[n];
    }
    return checked_end(sum, all == 0);
}

/*
 * Writes machine code for a counting loop into a fresh page, names it `jitted_loop` in /tmp/perf-PID.map (the
 * convention of Linux perf, tools/perf/Documentation/jit-interface.txt: "START SIZE name" in hexadecimal) and
 * burns --ms of CPU in it. The map stays for the profiler to read; --remove-map removes it at the end. x86-64
 * only.
 */
#include "known.h"

#include <fcntl.h>
#include <sys/mman.h>

/* push rbp; mov rbp, rsp; 1: dec rdi; jnz 1b; pop rbp; ret. With a frame pointer, as code generators do it. */
static const unsigned char machine_code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0x5d, 0xc3};

SEPARATE long call_jitted(void (*jitted)(long), int64_t ns)
{
    long calls = 0;
    for (int64_t end = thread_cpu_ns() + ns; thread_cpu_ns() < end; calls++)
        jitted(100000);
    return calls;
}

int main(int argc, char **argv)
{
    long ms = 200, remove_map = 0;
    const struct known_option options[] = {{"--ms", &ms, 0, 3600000}, {"--remove-map", &remove_map, 1, 1}};
    known_options(argc, argv, options, 2);
#ifndef __x86_64__
    errno = ENOTSUP;
    known_impossible("write code for this processor");
#endif
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        known_impossible("map a page for code");
    memcpy(page, machine_code, sizeof machine_code);
    char path[64], line[96];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    int length = snprintf(line, sizeof line, "%lx %zx jitted_loop\n", (unsigned long)page, sizeof machine_code);
    /* O_EXCL: a file or link that somebody left under this name is not ours to write. */
    int map = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (map < 0 || write(map, line, (size_t)length) != length)
        known_impossible("write the perf map");
    close(map);
    long calls = call_jitted((void (*)(long))page, (int64_t)ms * MEGA);
    if (remove_map)
        unlink(path);
    printf("map=%s\njitted_address=0x%lx\njitted_bytes=%zu\njitted_calls=%ld\n", path, (unsigned long)page,
           sizeof machine_code, calls);
    known_end();
    return 0;
}

/*
 * Burns --ms of CPU in burn_on while its own file is no more what it was:
 * --how 0: as it is; 1: executed from a memfd, which has no path; 2: its file is removed; 3: another file takes its path.
 * Modes 2 and 3 change the file that was started: start a copy.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "inline_work.h"
#include "known.h"

extern char **environ;
static volatile uint32_t result;

SEPARATE void burn_on(int64_t ns)
{
    uint32_t value = 1;
    for (int64_t end = thread_cpu_ns() + ns; thread_cpu_ns() < end;)
        value = inlined_work(value);
    result = value;
}

static void go_on_in_memory(char *ms)
{
    int from = open("/proc/self/exe", O_RDONLY), to = memfd_create("moved", 0);
    struct stat file;
    if (from < 0 || to < 0 || fstat(from, &file) != 0)
        known_impossible("copy the program");
    for (off_t at = 0; at < file.st_size;)
        if (sendfile(to, from, &at, (size_t)(file.st_size - at)) <= 0)
            known_impossible("copy the program");
    close(from);
    /* What is open for writing cannot be executed (ETXTBSY, execve(2)). */
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", to);
    int program = open(path, O_RDONLY | O_CLOEXEC);
    close(to);
    fexecve(program, (char *[]){"moved_away", "--ms", ms, NULL}, environ);
    known_impossible("execute from memory");
}

static void change_file(int replace)
{
    char path[4096], other[4100];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0)
        known_impossible("find the program's path");
    path[length] = '\0';
    if (!replace) {
        if (unlink(path) != 0)
            known_impossible("remove the program");
        return;
    }
    snprintf(other, sizeof other, "%s.new", path);
    FILE *file = fopen(other, "w");
    if (file == NULL || fputs("no program\n", file) < 0 || fclose(file) != 0 || rename(other, path) != 0)
        known_impossible("replace the program");
}

int main(int argc, char **argv)
{
    long ms = 200, how = 0;
    const struct known_option options[] = {{"--ms", &ms, 0, 3600000}, {"--how", &how, 0, 3}};
    known_options(argc, argv, options, 2);
    if (how == 1) {
        char text[24];
        snprintf(text, sizeof text, "%ld", ms);
        go_on_in_memory(text);
    }
    if (how > 1)
        change_file(how == 3);
    burn_on(ms * MEGA);
    known_end();
    return 0;
}

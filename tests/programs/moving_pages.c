/* Threads fill and change large blocks while their pages may be taken away and brought back (fathom place --next-touch): the sum is
   always the same. In between the program forks, reallocates, unmaps a part, and lets the kernel read and write a block. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 3, WORDS = 1 << 19, OWN = 1 << 18, ROUNDS = 40 };
static unsigned long *blocks[BLOCKS];

static void *work(void *number) {
    size_t own = (size_t)number;
    unsigned long sum = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (int block = 0; block < BLOCKS; block++)
            for (size_t at = own; at < WORDS; at += BLOCKS) {
                sum = sum * 31 + blocks[block][at];
                blocks[block][at] += own + 1;
            }
    return (void *)sum;
}

static unsigned long child_sum(const unsigned long *words) {
    pid_t child = fork();
    if (child == 0) {
        unsigned long sum = 0;
        for (size_t at = 0; at < OWN; at++) sum += words[at];
        _exit((int)(sum % 101));
    }
    int status = 0;
    waitpid(child, &status, 0);
    return (unsigned long)status;
}

static int through_a_file(unsigned long *words) {
    FILE *file = tmpfile();
    if (file == NULL) return 0;
    ssize_t bytes = OWN * sizeof *words;
    int done = write(fileno(file), words, (size_t)bytes) == bytes;
    memset(words, 0, (size_t)bytes);
    done = done && pread(fileno(file), words, (size_t)bytes, 0) == bytes;
    fclose(file);
    return done;
}

int main(void) {
    for (int block = 0; block < BLOCKS; block++) {
        blocks[block] = malloc(WORDS * sizeof **blocks);
        for (size_t at = 0; at < WORDS; at++) blocks[block][at] = at * 7 + (size_t)block;
    }
    pthread_t threads[BLOCKS];
    for (size_t number = 0; number < BLOCKS; number++) pthread_create(&threads[number], NULL, work, (void *)number);
    unsigned long sum = 0, *own = calloc(OWN, sizeof *own);
    for (int round = 0; round < 30; round++) {
        for (size_t at = 0; at < OWN; at++) own[at] += at;
        if (round % 5 == 1) sum = sum * 3 + child_sum(own);
        if (round % 7 == 2) own = realloc(own, (OWN + (size_t)round * 10000) * sizeof *own);
        if (round % 9 == 3 && !through_a_file(own)) return 1;
        char *part = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(part, round, 4 << 20);
        usleep(3000);
        munmap(part + (1 << 20), 1 << 20);
        sum += (unsigned char)part[12345] + (unsigned long)(unsigned char)part[3 << 20];
        munmap(part, 4 << 20);
    }
    for (size_t at = 0; at < OWN; at++) sum = sum * 5 + own[at];
    for (int number = 0; number < BLOCKS; number++) {
        void *its = NULL;
        pthread_join(threads[number], &its);
        sum += (unsigned long)its;
    }
    for (int block = 0; block < BLOCKS; block++) {
        for (size_t at = 0; at < WORDS; at++) sum = sum * 7 + blocks[block][at];
        free(blocks[block]);
    }
    free(own);
    printf("%lx\n", sum);
    /* Whoever counts threads must not wait for one that is not the program's. */
    pthread_exit(NULL);
}

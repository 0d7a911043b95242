/*
 * Two ranks. With `large` they send 8 MB back and forth, 150 times; with `ask` the first computes 30 ms of CPU time in each of 20 rounds,
 * and the second asks whether its message has come. Built by its test with mpicc, where that is installed.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BYTES 8000000

static void compute(double seconds)
{
    struct timespec now;
    volatile double sum = 0;
    double end = 0, at;
    do {
        for (int i = 0; i < 10000; i++)
            sum += i * 0.5;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        at = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
        end = end > 0 ? end : at + seconds;
    } while (at < end);
}

static void exchange(int rank)
{
    unsigned char *data = malloc(BYTES);
    memset(data, 7, BYTES);
    for (int round = 0; round < 150; round++) {
        if (rank == 0) {
            data[round] = (unsigned char)round;
            MPI_Send(data, BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(data, BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(data, BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (data[round] != (unsigned char)round)
                MPI_Abort(MPI_COMM_WORLD, 1);
            MPI_Send(data, BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
    free(data);
}

static void ask(int rank)
{
    int value = 0;
    for (int round = 0; round < 20; round++) {
        int come = 0;
        MPI_Request request;
        if (rank == 0) {
            compute(0.03);
            MPI_Send(&round, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        } else if (round % 2) {
            while (!come)
                MPI_Iprobe(0, 0, MPI_COMM_WORLD, &come, MPI_STATUS_IGNORE);
            MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Irecv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
            while (!come)
                MPI_Test(&request, &come, MPI_STATUS_IGNORE);
        }
        if (rank == 1 && value != round)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1 && strcmp(argv[1], "large") == 0)
        exchange(rank);
    else
        ask(rank);
    MPI_Finalize();
    puts("EXIT-SUCCESS");
    return 0;
}

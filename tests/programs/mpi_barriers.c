/*
 * Ranks that meet at a barrier in each of 20 rounds. The first computes 30 ms of CPU time in each, the others 10 ms. Built by its test
 * with mpicc, where that is installed.
 */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double compute(double seconds)
{
    double sum = 0, end = cpu_seconds() + seconds;
    while (cpu_seconds() < end)
        for (int i = 0; i < 10000; i++)
            sum += i * 0.5;
    return sum;
}

int main(int argc, char **argv)
{
    int rank;
    volatile double sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < 20; round++) {
        sum += compute(rank == 0 ? 0.03 : 0.01);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    puts("EXIT-SUCCESS");
    return 0;
}

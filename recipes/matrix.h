/*
 * Recipes R2 and R4: the contract between matrix.c (main, threads, clock, check) and one multiplication,
 * which is a file of its own and a program of its own.
 */
#ifndef RECIPES_MATRIX_H
#define RECIPES_MATRIX_H

#include <stdbool.h>
#include <stddef.h>

/* What one thread gets: rows [first_row, end_row) of c are its own; all of a and b is read by everybody. */
struct share {
    size_t size;  /* rows and columns of every matrix, stored row by row without padding */
    size_t first_row, end_row;
    size_t block; /* --block, rows and columns of a tile; multiply3 only */
    size_t threads;
    const double *a, *b;
    double *c; /* zeroed before the loop */
};

struct multiplication {
    const char *summary;
    void (*multiply)(const struct share *share);
    bool pinned_first_touch; /* threads stay on one core each, and each initialises the rows it will use */
    bool own_threads;        /* the library makes its threads: called once, with all rows */
    bool blocked;            /* takes --block */
};

/* Defined by the file of the multiplication. */
extern const struct multiplication multiplication;

#endif

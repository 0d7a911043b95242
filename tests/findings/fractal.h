/* A fractal of which some points take long and others no time. */
#pragma once
#include "finding.h"
enum { SIDE = 600, MOST = 400 };
static unsigned char picture[SIDE][SIDE];
__attribute__((noinline)) static int escape(double x, double y) {
    double re = 0.0, im = 0.0;
    int steps = 0;
    while (steps < MOST && re * re + im * im < 4.0) {
        double next = re * re - im * im + x;
        im = 2.0 * re * im + y;
        re = next;
        steps++;
    }
    return steps;
}

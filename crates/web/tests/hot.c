/* What the recording of the browser test names as its source. */

#include <stddef.h>

double sum;

static void hot_loop(const double *values, size_t count)
{
    /* Line 12 is where the samples are. */
    for (size_t i = 0; i < count; i++)
    {
        sum += values[i];
    }
}

int main(void)
{
    static double values[1000];
    for (int i = 0; i < 1000; i++)
        hot_loop(values, 1000);
    return sum > 0;
}

/* Near-miss of lines_persisted: stores to all lines, flushes all, and waits once. */
#define FIXED
#include "lines_persisted.c"

/* Two threads take items from a queue under its lock, and work on each when they have left it. */
#define WORK_INSIDE 0.0
#define WORK_OUTSIDE 2.5e-3
#include "queue.h"

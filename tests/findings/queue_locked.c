/* Two threads take items from a queue, and work on each while they hold its lock. */
#define WORK_INSIDE 2e-3
#define WORK_OUTSIDE 0.5e-3
#include "queue.h"

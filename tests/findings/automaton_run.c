/* Runs an automaton whose table of transitions is far larger than the caches: each state comes out of the last one's row. */
enum { STATES = 4 << 20 };
#include "automaton.h"

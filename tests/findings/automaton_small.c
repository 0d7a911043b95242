/* The same automaton with so few states that its table stays in the first-level cache. */
enum { STATES = 256 };
#include "automaton.h"

/* The framing of frames_stuffed with its state in variables, so that nothing is loaded again. */
#define FIXED
#include "frames_stuffed.c"

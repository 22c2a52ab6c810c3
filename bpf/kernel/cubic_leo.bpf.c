/* cubic-leo for a Linux kernel. */
#include "cubic_leo.h"

#define BP_ID cubic_leo
#define BP_NAME "cubic_leo"
#define BP_WINDOW(core) (&(core)->cubic.window)
#define BP_MONITOR(core) (&(core)->monitor)
#include "window_hooks.h"

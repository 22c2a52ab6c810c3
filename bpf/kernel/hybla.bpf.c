/* Hybla for a Linux kernel. */
#include "hybla.h"

#define BP_ID hybla
#define BP_NAME "hybla"
#define BP_WINDOW(core) (&(core)->window)
#include "window_hooks.h"

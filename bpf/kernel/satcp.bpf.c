/* SaTCP for a Linux kernel. */
#include "satcp.h"

#define BP_ID satcp
#define BP_NAME "satcp"
#define BP_WINDOW(core) (&(core)->cubic.window)
#define BP_ANNOUNCED
#include "window_hooks.h"

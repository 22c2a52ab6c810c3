"""The user terminal ("dish"): a client of its interface, a recorder, and a simulated terminal that speaks the same.

- `client`: `DishClient`, every answer with every field optional.
- `following`: one sample after the other, for ever, with back-off; a line per change of state.
- `recording`: `Recorder`, and `scan_recording` for what it wrote.
- `simulation`: `Terminal` answers as a dish would behind a Profile; `serve` puts it on a port.

What needs gRPC (all but reading a recording) needs the extra ``bentpipe[dish]``.
"""

import os

# gRPC's core writes lines of its own to stderr; what went wrong reaches us as an exception. It looks when it is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

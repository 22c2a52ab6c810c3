"""QUIC client (aioquic): python fetch.py CERTIFICATE BYTES. Downloads from `server`, prints times and goodput."""

import asyncio
import json
import sys
import time

from aioquic.asyncio import connect
from aioquic.quic.configuration import QuicConfiguration
from serve import ALPN, PORT

#: Flow-control window: more than the path holds, so that the server's controller is the limit.
WINDOW_BYTES = 16 << 20


async def main(file, size):
    options = QuicConfiguration(alpn_protocols=[ALPN], max_data=WINDOW_BYTES, max_stream_data=WINDOW_BYTES)
    options.load_verify_locations(file)
    begin = time.monotonic()
    async with connect("server", PORT, configuration=options) as connection:
        connected = time.monotonic()
        reader, writer = await connection.create_stream()
        writer.write(f"{size}\n".encode())
        writer.write_eof()
        received = 0
        while chunk := await reader.read(1 << 16):
            received += len(chunk)
        took = time.monotonic() - connected
    times = {"received_bytes": received, "handshake_s": connected - begin, "download_s": took}
    print(json.dumps({**times, "goodput_bps": 8 * received / took}))
    return 0 if received == size else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1], int(sys.argv[2]))))

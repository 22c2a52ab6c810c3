"""A QUIC server (aioquic) that sends the requested number of bytes: python serve.py CERTIFICATE [reno|cubic].

It writes a certificate for the name `server` to CERTIFICATE, where `fetch.py` reads it.
"""

import asyncio
import datetime
import sys
from pathlib import Path

from aioquic.asyncio import serve
from aioquic.quic.configuration import QuicConfiguration
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

PORT = 4433
ALPN = "bentpipe-download"


def certificate():
    """Make a self-signed certificate for `server`; returns it and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("server")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return signed, key


def answer(reader, writer):
    async def send():
        size = int((await reader.readline()).split()[0])
        writer.write(bytes(size))
        writer.write_eof()

    tasks.add(asyncio.ensure_future(send()))  # the event loop holds only weak references


async def main(file, congestion):
    options = QuicConfiguration(
        is_client=False, alpn_protocols=[ALPN], congestion_control_algorithm=congestion, max_datagram_size=1350
    )
    options.certificate, options.private_key = certificate()
    file.write_bytes(options.certificate.public_bytes(Encoding.PEM))
    await serve("::", PORT, configuration=options, stream_handler=answer)
    await asyncio.Event().wait()


tasks = set()
if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "cubic"))

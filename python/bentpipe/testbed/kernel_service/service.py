"""The service: a Unix socket, one thread for each connection, an audit line for each call."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

from bentpipe.errors import BentpipeError, UserError
from bentpipe.testbed.kernel_service.runs import Runs
from bentpipe.testbed.kernel_service.vocabulary import MAX_LINE_BYTES, Call, parse_call

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

MAX_CONNECTIONS: Final = 16
IDLE_S: Final = 3600.0
"""A connection that is silent for longer is closed [s]. The agent's client speaks more often."""

_DESCRIPTORS: Final = 4


class KernelService:
    """Answers calls until it is closed.

    Example:
        >>> from pathlib import Path
        >>> from bentpipe.testbed.kernel_service.service import KernelService
        >>> with KernelService(Path("kernel.sock"), users=[0], audit=print):  # doctest: +SKIP
        ...     pass
    """

    def __init__(self, path: Path, users: Collection[int], audit: Callable[[str], object]) -> None:
        """Listen.

        Args:
            path: The socket; it is made with mode 0600 and replaced if it exists.
            users: Users who may call, by SO_PEERCRED.
            audit: Called with a line of JSON for each call and each refused connection.

        Raises:
            UserError: The socket cannot be made.
        """
        self._users, self._audit, self._path = frozenset(users), audit, path
        self._audit_lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._closed = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)
        try:
            path.unlink(missing_ok=True)
            self._socket.bind(str(path))
        except OSError as error:
            self._socket.close()
            raise UserError(f"{path}: {error.strerror or error}", expected="a path that a socket can have") from error
        finally:
            os.umask(mask)
        self._socket.listen(MAX_CONNECTIONS)

    def __enter__(self) -> Self:
        """Serve in a thread of its own."""
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Accept no further connections and remove the socket."""
        self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def allow(self, user: int, group: int) -> None:
        """Let a user connect who does not run this service: the socket becomes theirs. Raises `OSError`."""
        os.chown(self._path, user, group)

    def serve(self) -> None:
        """Accept connections until `close`."""
        while not self._closed:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                if self._closed:
                    return
                time.sleep(0.1)  # no more descriptors
                continue
            pid, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if user not in self._users or not self._slots.acquire(blocking=False):
                self._log(user, pid, None, "refused connection")
                connection.close()
                continue
            threading.Thread(target=self._converse, args=(connection, user, pid), daemon=True).start()

    def _converse(self, connection: socket.socket, user: int, pid: int) -> None:
        runs = Runs()
        try:
            with connection:
                connection.settimeout(IDLE_S)
                self._answer_lines(connection, runs, user, pid)
        except OSError:  # the client is gone, or silent
            pass
        finally:
            runs.forget_all()
            self._slots.release()

    def _answer_lines(self, connection: socket.socket, runs: Runs, user: int, pid: int) -> None:
        received, descriptors = b"", list[int]()
        try:
            while True:
                data, sent, flags, _ = socket.recv_fds(connection, 65_536, _DESCRIPTORS)
                descriptors += sent
                if not data:
                    return
                received += data
                *lines, received = received.split(b"\n")
                for line in lines:
                    answer = self._answer(line, descriptors, runs, user, pid)
                    connection.sendall(json.dumps(answer).encode() + b"\n")
                if len(received) > MAX_LINE_BYTES or flags & socket.MSG_CTRUNC or len(descriptors) > _DESCRIPTORS:
                    self._log(user, pid, None, "closed: too long a line or too many descriptors")
                    return
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _answer(self, line: bytes, descriptors: list[int], runs: Runs, user: int, pid: int) -> dict[str, Any]:
        call = None
        try:
            call = parse_call(line)
            result: Any = None
            if call.verb == "register":
                runs.register(call.run or "", descriptors)
            elif call.verb == "forget":
                runs.forget(call.run or "")
            else:
                result = runs.perform(call)
            answer: dict[str, Any] = {"ok": True, "result": result}
        except BentpipeError as error:
            answer = {"ok": False, "code": error.code, "error": " ".join(str(error).split())}
        except Exception as error:  # noqa: BLE001 - a call must not end the service; it is audited
            answer = {"ok": False, "code": "failed", "error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
        finally:
            while descriptors:  # registered ones were duplicated
                os.close(descriptors.pop())
        self._log(user, pid, call, "ok" if answer["ok"] else str(answer["error"]))
        return answer

    def _log(self, user: int, pid: int, call: Call | None, outcome: str) -> None:
        entry = {
            "at_ms": time.time_ns() // 1_000_000,
            "user": user,
            "pid": pid,
            "run": call and call.run,
            "verb": call and call.verb,
            "values": call and call.values,
            "outcome": outcome[:500],
        }
        with self._audit_lock:
            self._audit(json.dumps(entry))

"""A Dask cluster of processes of its own, to be killed, and what its workers measure: a module that they can import."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

#: In a worker's environment: a file. Whoever removes it dies of it, in the middle of a Run, and nobody after.
FATAL = "BENTPIPE_TEST_FATAL"
STARTS_S = 60.0
"""A process of Dask starts in a second or two; in so many something is wrong."""


def measured_or_killed(outcome):
    """The last bytes of a Run; the first process that measures where `FATAL` is there dies as of the OOM killer."""
    fatal = os.environ.get(FATAL)
    if fatal is not None:
        try:
            Path(fatal).unlink()
        except FileNotFoundError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return {"last_bytes": int(outcome.samples()["goodput_bytes"][-1])}


class Cluster:
    """A scheduler and workers, each a process (`subprocess.Popen`) that only this object ends."""

    def __init__(self, folder, workers, environment):
        """Starts all at once; the workers, one thread each, have no nanny that would start them again."""
        self._folder = folder
        self._file = folder / "scheduler.json"
        files = ["--scheduler-file", self._file]
        self.scheduler = self._start("scheduler", ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", *files])
        alone = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", folder]
        self.workers = [self._start("worker", [*files, *alone], environment) for _ in range(workers)]

    @property
    def address(self):
        """The scheduler's, once it has one."""
        return wait_for(self._address, self.scheduler)

    def until_all_are_there(self):
        """Waits until the scheduler has all workers."""
        from distributed import Client

        with Client(self.address, timeout=STARTS_S, set_as_default=False) as client:
            client.wait_for_workers(len(self.workers), timeout=STARTS_S)

    def close(self):
        """Ends what still runs."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def _start(self, role, options, environment=()):
        path = os.pathsep.join(map(str, [Path(__file__).parent, *sys.path]))
        with (self._folder / f"{role}s.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{role}", *map(str, options)],
                env=os.environ | {"PYTHONPATH": path} | dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _address(self):
        try:
            return json.loads(self._file.read_text())["address"]
        except (OSError, ValueError):
            return None


@contextmanager
def cluster(folder, workers, **environment):
    """A `Cluster` whose files lie in a folder."""
    folder.mkdir()
    result = Cluster(folder, workers, environment)
    try:
        yield result
    finally:
        result.close()


def wait_for(is_there, process, timeout_s=STARTS_S):
    """What `found` gives once it gives something, while a process lives."""
    ends = time.monotonic() + timeout_s
    while time.monotonic() < ends:
        if (value := is_there()) is not None:
            return value
        assert process.poll() is None, f"{process.args[:3]} ended with {process.returncode}"
        time.sleep(0.01)
    raise TimeoutError(f"nothing in {timeout_s:g} s")

"""Profiles of nodes' links, made of results of a time window, in a process with limits."""

from __future__ import annotations

import asyncio
import io
import json
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.errors import BentpipeError, UserError
from bentpipe.testbed.orchestrator.services import listings, nodes
from bentpipe.testbed.orchestrator.services.limited import limit_process, run_limited
from bentpipe.testbed.orchestrator.services.refusals import BusyError, NotFoundError, RefusedError, TooLargeError

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Orchestrator

LONGEST_MS = 24 * 3_600_000
"""Longest window [ms]."""
EARLIER_MS = LONGEST_MS
"""How long before the window a run may have begun whose result has data of it [ms]."""
MOST_BYTES = 500 * 10**6
"""Size of the results that are read for one Profile [bytes]."""
MADE_S = 120.0
"""Longest time in which a Profile is made [s]."""
WRITTEN_BYTES = 200 * 10**6
"""Size of a file that is written [bytes]."""
USED = ("run.json", "probes.parquet", "samples.parquet", "terminal/run.json", "terminal/dish_samples.parquet")
USED_OF_DISH = ("dish_samples.parquet",)
"""Files of a result that are used."""
_turns: dict[int, asyncio.Semaphore] = {}


@dataclass(frozen=True)
class Wish:
    """What is wanted.

    Attributes:
        from_at_ms: Start of the window [ms since 1970].
        to_at_ms: Its end.
        form: ``parquet``, or a format of `bentpipe.profiles.convert.FORMATS` that can be written.
        latency: As of `bentpipe.measurements.node_profile.node_profile`.
    """

    from_at_ms: int
    to_at_ms: int
    form: str = "parquet"
    latency: str = "auto"


@dataclass(frozen=True)
class Made:
    """A Profile's file: Parquet, or an archive (zip) of another format's files."""

    name: str
    media_type: str
    content: bytes


async def make_profile(orchestrator: Orchestrator, node: str, wish: Wish) -> Made:
    """Make the Profile of a node's link.

    Raises:
        NotFoundError: No such node, or no delays in the window.
        TooLargeError: The window has more data than is read at once.
        BusyError: Another one is being made.
        UserError: The window ends before it begins, or is longer than a day.
    """
    view = await nodes.show_node(orchestrator, node)
    if not 0 < wish.to_at_ms - wish.from_at_ms <= LONGEST_MS:
        length_s = (wish.to_at_ms - wish.from_at_ms) / 1000
        raise UserError(f"the window has {length_s:g} s", where="to_at_ms", expected="more than 0, at most 24 h")
    turn = _turns.setdefault(id(asyncio.get_running_loop()), asyncio.Semaphore(1))
    if turn.locked():
        raise BusyError("a Profile is being made; try again")
    async with turn:
        with tempfile.TemporaryDirectory(prefix="bentpipe-profile-") as name:
            folder = Path(name)
            await _fetch(orchestrator, view.id, wish, folder / "results")
            (folder / "made").mkdir()
            (folder / "results").mkdir(exist_ok=True)
            arguments = (str(folder), view.name, str(wish.from_at_ms), str(wish.to_at_ms), wish.form, wish.latency)
            code, text = await run_limited(f"{__package__}.node_profiles", *arguments, seconds=MADE_S)
            if code != 0:
                raise _refusal(code, text)
            return await asyncio.to_thread(_read, folder / "made", view.name, wish)


def _refusal(code: int | None, text: str) -> BentpipeError:
    if code is None:
        return TooLargeError(f"the Profile was not made within {MADE_S:.0f} s; try a shorter window")
    try:
        problem = json.loads(text)
        kind = NotFoundError if problem["code"] == "not_found" else RefusedError
        return kind(str(problem["text"])[:500], code=str(problem["code"])[:40])
    except (ValueError, KeyError, TypeError):
        return TooLargeError("the results of this window cannot be read together; try a shorter window")


async def _fetch(orchestrator: Orchestrator, node: str, wish: Wish, folder: Path) -> None:
    """Copy the files that a Profile is made of."""
    after, total = "", 0
    while True:
        listed = await listings.list_runs(
            orchestrator,
            after,
            200,
            node=node,
            from_at_ms=max(0, wish.from_at_ms - EARLIER_MS),
            to_at_ms=wish.to_at_ms,
        )
        for run in listed.items:
            if run.location is None:
                continue
            detail = await listings.show_run(orchestrator, run.id)
            files = {path for end in detail.ends if end.end == "client" for path in end.files}
            for path in sorted(files & {*USED, *USED_OF_DISH}):
                total += await orchestrator.storage.size(f"{run.location}/{path}") or 0
                if total > MOST_BYTES:
                    raise TooLargeError(
                        f"the window has more than {MOST_BYTES // 10**6} MB of results; try a shorter one"
                    )
                target = folder / run.id / path
                target.parent.mkdir(parents=True, exist_ok=True)
                content = await orchestrator.storage.get(f"{run.location}/{path}")
                if content is not None:
                    await asyncio.to_thread(target.write_bytes, content)
        if listed.next is None:
            return
        after = listed.next


def _read(folder: Path, node: str, wish: Wish) -> Made:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if wish.form == "parquet":
        return Made(f"{node}.parquet", "application/octet-stream", files[0].read_bytes())
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for path in files:
            opened.write(path, path.relative_to(folder))
    return Made(f"{node}.{wish.form}.zip", "application/zip", archive.getvalue())


def make(folder: Path, node: str, wish: Wish) -> None:
    """Make a Profile of ``FOLDER/results`` in ``FOLDER/made``. Raises `UserError`."""
    from bentpipe.measurements.node_profile import node_profile
    from bentpipe.profiles.convert import ending, write_as
    from bentpipe.profiles.parquet import write_profile

    made = node_profile(folder / "results", node, wish.from_at_ms, wish.to_at_ms, latency=wish.latency)  # type: ignore[arg-type]
    target = folder / "made" / node
    if wish.form == "parquet":
        write_profile(made.profile, target.with_name(f"{node}.parquet"))
    else:
        write_as(wish.form, made.profile, target.with_name(f"{node}{ending(wish.form)}"))


def main() -> int:
    """Make the Profile of the arguments; print a problem as JSON."""
    limit_process(MADE_S, Path(sys.argv[1]), WRITTEN_BYTES)
    folder, node, begin, end, form, latency = sys.argv[1:]
    try:
        make(Path(folder), node, Wish(int(begin), int(end), form, latency))
    except BentpipeError as error:
        sys.stdout.write(json.dumps({"code": error.code, "text": str(error).replace(folder, "results")}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

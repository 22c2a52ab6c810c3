"""Requests about experiments and their runs."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from bentpipe.testbed.client.requests import Requests, path_part

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from bentpipe.testbed.schemas.experiment import TestbedExperiment
    from bentpipe.testbed.schemas.experiment_views import DryRun, ExperimentDetail, ExperimentView, RunDetail, RunView


class ExperimentRequests(Requests):
    """Submits, watches and ends experiments, and fetches their results."""

    @staticmethod
    def validate(text: str, where: str = "experiment") -> TestbedExperiment:
        """Check the file of an experiment, without an orchestrator. Raises `UserError`.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient.validate("schema: bentpipe.experiment/2")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: experiment: schema is 'bentpipe.experiment/2'; expected 'bentpipe.experiment/1'
        """
        from bentpipe.testbed.schemas.experiment import TestbedExperiment

        return TestbedExperiment.from_yaml(text, where)

    def submit(self, text: str, *, key: str | None = None) -> ExperimentDetail:
        """Submit the file of an experiment.

        Args:
            text: The file.
            key: The same key again gives the same answer (Idempotency-Key); None: a new one.

        Raises:
            UserError: A mistake in the file, or no node fits.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").submit("name: x")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.experiment_views import ExperimentDetail

        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        return self._ask(ExperimentDetail, "POST", "/v1/experiments", body={"text": text}, headers=headers)

    def dry_run(self, text: str) -> DryRun:
        """Return what a submission would do: nodes, the first starts, bytes, conflicts by name. Raises as `submit`.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").dry_run("name: x")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.experiment_views import DryRun

        return self._ask(DryRun, "POST", "/v1/experiments/dry-run", body={"text": text})

    def experiments(self, *, state: str | None = None, owner: str | None = None) -> list[ExperimentView]:
        """Return experiments, newest first; of a state, of an owner.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").experiments()
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.experiment_views import ExperimentPage

        return list(self._pages(ExperimentPage, "/v1/experiments", {"state": state, "owner": owner}))

    def experiment(self, name: str) -> ExperimentDetail:
        """Return an experiment by id, or the newest of a name.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").experiment("x")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.experiment_views import ExperimentDetail

        return self._ask(ExperimentDetail, "GET", f"/v1/experiments/{path_part(name)}")

    def cancel(self, name: str) -> ExperimentDetail:
        """Cancel an experiment: its runs too, and what runs is stopped.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").cancel("x")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.experiment_views import ExperimentDetail

        return self._ask(ExperimentDetail, "POST", f"/v1/experiments/{path_part(name)}/cancel")

    def extend(self, name: str, *, until: str | None = None, runs: int | None = None) -> ExperimentDetail:
        """Give an experiment more time (`until`: ISO-8601), or more runs at each node.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").extend("x", runs=3)
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.experiment_views import ExperimentDetail
        from bentpipe.times import parse_utc

        body = {"until_at_ms": None if until is None else parse_utc(until, "until") // 10**6, "runs": runs}
        return self._ask(ExperimentDetail, "POST", f"/v1/experiments/{path_part(name)}/extend", body=body)

    def runs(
        self, experiment: str | None = None, *, node: str | None = None, state: str | None = None
    ) -> list[RunView]:
        """Return runs by start; of an experiment, of a node, in a state.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").runs("x")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.experiment_views import RunPage

        return list(self._pages(RunPage, "/v1/runs", {"experiment": experiment, "node": node, "state": state}))

    def run(self, run: str) -> RunDetail:
        """Return a run with its ends and what agents reported of it.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").run("0" * 32)
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.experiment_views import RunDetail

        return self._ask(RunDetail, "GET", f"/v1/runs/{path_part(run)}")

    def watch(self, experiment: str, *, every_s: float = 2.0) -> Iterator[RunView]:
        """Yield each run of an experiment as it is, and again when its state changed, until all is over.

        Example:
            >>> import bentpipe as bp
            >>> next(bp.TestbedClient("http://127.0.0.1:1", "a token").watch("x"))
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        seen: dict[str, str] = {}
        key = self.experiment(experiment).id
        while True:
            is_over = self.experiment(key).state != "active"
            for run in self.runs(key):
                if seen.get(run.id) != run.state:
                    seen[run.id] = run.state
                    yield run
            if is_over:
                return
            time.sleep(every_s)

    def results(self, experiment: str, folder: str | os.PathLike[str]) -> list[Path]:
        """Download the results of an experiment; what is there already stays. Return the folders of the runs.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").results("x", "out")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        folders = []
        for run in self.runs(self.experiment(experiment).id):
            if run.location is None:
                continue
            target = Path(folder) / run.location
            for end in self.run(run.id).ends:
                for path in end.files:
                    file = (target if end.end == "client" else target / "server") / path
                    if not file.exists():
                        self._download(f"/v1/runs/{run.id}/files/{end.end}/{quote(path)}", file)
            folders.append(target)
        return folders

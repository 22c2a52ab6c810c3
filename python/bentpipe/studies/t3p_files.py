"""The records of the TOML files of T3P's studies."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from bentpipe.records import Items, Name, Record, Text
from bentpipe.studies.fields import Counterfactuals, FieldRunS, Hours, Orders, PathText, TestS, Texts, WarmupS
from bentpipe.studies.scenario import (
    Count,
    PlaceEntry,
    PredictorFiles,
    PublishedFile,
    RunS,
    StudyFile,
    Utc,
    WindowsEntry,
)


class T3pTerminals(StudyFile):
    """``studies/t3p.toml``."""

    FILE: ClassVar[str] = "studies/t3p.toml"
    sites: Annotated[dict[Name, PlaceEntry], Field(min_length=1)]
    """The paper's terminals by key."""


class T3pUplink(StudyFile):
    """``studies/t3p-uplink.toml``."""

    FILE: ClassVar[str] = "studies/t3p-uplink.toml"
    terminal: Text
    """Key of the terminal in ``t3p.toml``."""
    server: PlaceEntry
    """The server."""
    first: Utc
    """Day of the first test."""
    hours: Hours
    """Hours of a day's tests."""
    tests: Count
    """Number of tests."""
    duration_s: TestS
    """Duration of a test [s]."""
    seed: Annotated[int, Field(ge=0, le=10**6)]
    """Test number N has this seed plus N."""
    counterfactual: Counterfactuals
    """Changes to the path, the most informative first."""


class GridPoint(Record):
    """A point of the grid of BBRv2's two tunables, as text."""

    probe_rtt_win_ms: Text
    loss_thresh: Text


class GridValues(Record):
    """Values of BBRv2's two tunables, as text."""

    probe_rtt_win_ms: Texts
    loss_thresh: Texts


class T3pBbr2Grid(PublishedFile):
    """``studies/t3p-bbr2-grid.toml``."""

    FILE: ClassVar[str] = "studies/t3p-bbr2-grid.toml"
    probe_rtt_win_ms: Texts
    """Values of the tunable, the default first."""
    loss_thresh: Texts
    """Values of the tunable, the default first."""
    tests_quick: Count
    """Number of tests with ``--quick``."""
    fresh_quick: Count
    """Number of fresh tests with ``--quick``."""
    tests_elsewhere: Count
    """Number of tests from other terminals."""
    tests_curve: Count
    """Number of tests for each point of the curve."""
    duration_quick_s: RunS
    """Duration of a test with ``--quick`` [s]."""
    most_inflation: Annotated[float, Field(ge=0, le=10)]
    """Largest RTT inflation of the best point, as a share."""
    elsewhere: Texts
    """Keys of other terminals in ``t3p.toml``."""
    intervals_s: Annotated[Items[Annotated[int, Field(ge=1, le=3600)]], Field(min_length=1)]
    """Mean times between loss episodes for the curve [s]."""
    far: PlaceEntry
    """A more distant server."""
    chosen: GridPoint
    """The paper's best point."""
    good_elsewhere: GridValues
    """Values of the paper's best points of other places."""


class FibreLine(Record):
    """The terrestrial line of t3p-cc."""

    preset: Text
    """Preset of the path."""
    traffic: Text
    """Background traffic."""


class T3pCc(PublishedFile):
    """``studies/t3p-cc.toml``."""

    FILE: ClassVar[str] = "studies/t3p-cc.toml"
    controllers: Texts
    """Controllers over LEO."""
    terrestrial: Texts
    """Controllers over the terrestrial line."""
    duration_quick_s: RunS
    """Duration of a test with ``--quick`` [s]."""
    tests_quick: Count
    """Number of tests with ``--quick``."""
    fibre: FibreLine
    """The terrestrial line."""
    order: Orders
    """Published order of the controllers over LEO."""


class Setting(Record):
    """A setting of BBRv2 in t3p-fairness."""

    label: Text
    """Name in the figure."""
    scheme: Text
    """The scheme."""


class T3pFairness(StudyFile):
    """``studies/t3p-fairness.toml``; the paper's text has no values of its figure."""

    FILE: ClassVar[str] = "studies/t3p-fairness.toml"
    flows_each: Annotated[int, Field(ge=1, le=100)]
    """Number of flows of each controller."""
    tests_quick: Count
    """Number of tests with ``--quick``."""
    duration_quick_s: TestS
    """Duration of a test with ``--quick`` [s]."""
    settings: Annotated[Items[Setting], Field(min_length=1)]
    """Settings, the default first."""


class WindowsFile(PublishedFile):
    """A study of probes at some hours of each day."""

    windows: WindowsEntry
    """Windows of probing."""
    windows_quick: Annotated[WindowsEntry, Field(alias="windows-quick")]
    """With ``--quick``."""


class T3pLatency(WindowsFile):
    """``studies/t3p-latency.toml``."""

    FILE: ClassVar[str] = "studies/t3p-latency.toml"


class T3pOrientation(WindowsFile):
    """``studies/t3p-orientation.toml``."""

    FILE: ClassVar[str] = "studies/t3p-orientation.toml"


class T3pPath(WindowsFile):
    """``studies/t3p-path.toml``."""

    FILE: ClassVar[str] = "studies/t3p-path.toml"


class T3pPredictors(WindowsFile):
    """``studies/t3p-predictors.toml``."""

    FILE: ClassVar[str] = "studies/t3p-predictors.toml"
    files: PredictorFiles
    """Measurements below a folder."""


class AbrFiles(Record):
    """Measurements that t3p-abr finds below a folder, by their place."""

    throughput: Items[Text]
    """Tests of throughput."""
    video: Text
    """Folder with the sizes of the video's chunks."""


class T3pAbr(PublishedFile):
    """``studies/t3p-abr.toml``."""

    FILE: ClassVar[str] = "studies/t3p-abr.toml"
    buffers_s: Annotated[Items[Annotated[float, Field(ge=8, le=600)]], Field(min_length=1)]
    """Buffers above which a player waits [s]."""
    scales: Annotated[Items[Annotated[float, Field(gt=0, le=1000)]], Field(min_length=1)]
    """Median capacities of a window over the highest bitrate."""
    buffers_quick_s: Annotated[Items[Annotated[float, Field(ge=8, le=600)]], Field(min_length=1)]
    """With ``--quick``."""
    scales_quick: Annotated[Items[Annotated[float, Field(gt=0, le=1000)]], Field(min_length=1)]
    """With ``--quick``."""
    windows_s: Annotated[float, Field(ge=30, le=86_400)]
    """Length of a window [s]."""
    policies: Texts
    """Policies of the players."""
    model: Text
    """Predictor of the throughput."""
    duration_s: RunS
    """Duration of a computed path [s]."""
    duration_quick_s: RunS
    """With ``--quick`` [s]."""
    paths: Annotated[Items[PathText], Field(min_length=1)]
    """Paths as ``SITE TO START SEED``."""
    paths_quick: Annotated[int, Field(ge=1, le=100)]
    """Number of paths with ``--quick``."""
    files: AbrFiles
    """Measurements below a folder."""


class HandoverFiles(Record):
    """Measurements that t3p-handovers finds below a folder, by their place."""

    pings: Items[Text]
    """Logs of dense pings."""


class ScoredSteps(Record):
    """Steps whose probability is scored."""

    over_ms: Annotated[Items[Annotated[float, Field(gt=0, le=10_000)]], Field(min_length=1)]
    """Sizes [ms]."""


class HintSources(Record):
    """Flows of a controller with hints from several sources."""

    learned_s: RunS
    """Time of pings that a clock is learned from [s]."""
    duration_s: FieldRunS
    """Duration of a Run [s]."""
    warmup_s: WarmupS
    """Time that figures exclude [s]."""
    parent: Text
    """The controller that it was made from."""
    none: Text
    """Without hints."""
    own: Text
    """With a clock that it learns itself."""
    announced: Text
    """With announcements."""
    paths_quick: Annotated[int, Field(ge=1, le=100)]
    """Number of paths with ``--quick``."""
    paths: Annotated[Items[PathText], Field(min_length=1)]
    """Paths as ``SITE TO START SEED``."""


class T3pHandovers(StudyFile):
    """``studies/t3p-handovers.toml``; the paper proposes the model and has no figures."""

    FILE: ClassVar[str] = "studies/t3p-handovers.toml"
    pings: Annotated[Items[PathText], Field(min_length=1)]
    """Computed paths of pings."""
    pings_quick: Annotated[int, Field(ge=1, le=100)]
    """Number of them with ``--quick``."""
    pings_s: RunS
    """Duration of the pings [s]."""
    ping_interval_s: Annotated[float, Field(ge=0.001, le=0.1)]
    """Time between pings [s]."""
    files: HandoverFiles
    """Measurements below a folder."""
    scored: ScoredSteps
    """Steps whose probability is scored."""
    hints: HintSources
    """Flows with hints."""


class T3pSpikes(WindowsFile):
    """``studies/t3p-spikes.toml``."""

    FILE: ClassVar[str] = "studies/t3p-spikes.toml"


class T3pTrigger(PublishedFile):
    """``studies/t3p-trigger.toml``."""

    FILE: ClassVar[str] = "studies/t3p-trigger.toml"
    condition: Text
    """The trigger's condition on the node's pings."""
    window_s: Annotated[float, Field(ge=0.1, le=5)]
    """Length of its windows [s]."""
    cooldown_s: Annotated[float, Field(ge=1, le=600)]
    """Least time between two firings [s]."""
    windows_simulated_s: Annotated[Items[Annotated[float, Field(ge=0.1, le=5)]], Field(min_length=1)]
    """Lengths of windows that are simulated [s]."""
    homes: Annotated[Texts, Field(min_length=2, max_length=2)]
    """Terminals of the testbed's homes, as keys of ``t3p.toml``."""
    simulated: Texts
    """Terminals that are simulated, likewise."""
    upload_s: Annotated[float, Field(ge=2, le=60)]
    """Length of an upload [s]."""
    trials: Count
    """Uploads of each schedule at each home."""
    trials_quick: Count
    """With ``--quick``."""
    gap_s: Annotated[Items[Annotated[float, Field(ge=1, le=600)]], Field(min_length=2, max_length=2)]
    """Least and most time between the starts of two random uploads [s]."""
    first: Utc
    """Day of the paths."""
    hours: Hours
    """Hours at which a path begins; the homes have the first one."""
    hours_quick: Hours
    """With ``--quick``."""
    duration_s: TestS
    """Duration of a path [s]."""
    seed: Annotated[int, Field(ge=0, le=10**6)]
    """Path number N has this seed plus N."""
    start_delay_s: Annotated[float, Field(ge=0, le=10)]
    """Time from the end of the window to a simulated upload [s]."""
    controllers: Texts
    """Simulated controllers, the paper's first."""
    kernel: Text
    """The kernel's controller."""


FILES = (
    T3pTerminals,
    T3pUplink,
    T3pBbr2Grid,
    T3pCc,
    T3pFairness,
    T3pLatency,
    T3pOrientation,
    T3pPath,
    T3pPredictors,
    T3pAbr,
    T3pHandovers,
    T3pSpikes,
    T3pTrigger,
)
"""Every record of a file."""

"""The records of the studies' TOML files. `make docs` publishes their JSON Schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bentpipe.records import Items, Name, Record, Text
from bentpipe.studies.fields import Counterfactuals, FieldRunS, Hours, Orders, PathText, PingS, TestS, Texts, WarmupS
from bentpipe.studies.multi_access_file import MultiAccess, MultiAccessKernel
from bentpipe.studies.outages_file import Outages
from bentpipe.studies.scenario import Count, HostEntry, PlaceEntry, PublishedFile, RunS, StudyFile, Utc, WindowsEntry
from bentpipe.studies.t3p_files import FILES as T3P_FILES


class TwoStreamPath(Record):
    """A path of apnic-2022, and the times of its two streams."""

    preset: Text
    """Preset of the path."""
    traffic: Text | None = None
    """Background traffic; default: none."""
    joins_s: Annotated[float, Field(ge=1, le=3600)]
    """When the second stream joins [s]."""
    leaves_s: Annotated[float, Field(ge=1, le=3600)]
    """When the first stream leaves [s]."""
    ends_s: Annotated[float, Field(ge=1, le=3600)]
    """When the test ends [s]."""
    bin_s: Annotated[float, Field(ge=0.1, le=60)]
    """Width of the figure's bins [s]."""
    quick: Annotated[float, Field(ge=0.05, le=1)]
    """Factor of the times with ``--quick``."""


class PingTimes(Record):
    """Durations of the pings of apnic-2022."""

    duration_s: PingS
    """Over LEO [s]."""
    duration_quick_s: PingS
    """With ``--quick`` [s]."""
    geo_s: PingS
    """Over GEO, at most [s]."""


class Apnic2022(PublishedFile):
    """``studies/apnic-2022.toml``."""

    FILE: ClassVar[str] = "studies/apnic-2022.toml"
    seeds: Count
    """Number of tests."""
    seeds_quick: Annotated[Count, Field(alias="seeds-quick")]
    """With ``--quick``."""
    controllers: Texts
    """Controllers of both streams."""
    host: HostEntry
    """Both hosts."""
    paths: Annotated[dict[Name, TwoStreamPath], Field(min_length=1)]
    """Paths by name."""
    ping: PingTimes
    """Durations of the pings."""
    counterfactual: Counterfactuals
    """Changes to the paths, the most informative first."""
    order: Orders
    """Published order of the controllers, by path."""


class Bbr3Starlink(PublishedFile):
    """``studies/bbr3-starlink.toml``."""

    FILE: ClassVar[str] = "studies/bbr3-starlink.toml"
    cities: Texts
    """Cities of the servers."""
    cities_quick: Annotated[Texts, Field(alias="cities-quick")]
    """With ``--quick``."""
    controllers: Texts
    """Controllers, the study's own first."""
    preset: Text
    """Prefix of the services of the paths."""
    duration_s: RunS
    """Duration of a test [s]."""
    duration_quick_s: RunS
    """With ``--quick`` [s]."""
    hours: Hours
    """Hours of the tests."""
    hours_quick: Annotated[Hours, Field(alias="hours-quick")]
    """With ``--quick``."""
    buffers: Annotated[dict[Name, HostEntry], Field(min_length=1)]
    """Sizes of the hosts' buffers by name."""
    counterfactual: Counterfactuals
    """Changes to the paths, the most informative first."""
    order: Orders
    """Published order of the controllers, of downloads, by city."""


class Queues(Record):
    """Queue disciplines of ecn-on-starlink, as for ``race --aqm``."""

    codel: Text
    fq_codel: Text
    step: Text
    step_deep: Text


class LongRuns(Record):
    """Runs that are long enough for a controller to learn a clock."""

    duration_s: FieldRunS
    """Duration of a Run [s]."""
    warmup_s: WarmupS
    """Time that figures exclude [s]: until then the clock is learned."""
    paths: Count
    """The study's first so many paths."""


class CeilingClock(LongRuns):
    """Runs of cc-ceiling that are long enough for a clock."""

    cases: Annotated[dict[Text, Text], Field(min_length=2)]
    """Scheme by its source of reconfiguration times; the first one has none."""


class Ceiling(PublishedFile):
    """``studies/cc-ceiling.toml``."""

    FILE: ClassVar[str] = "studies/cc-ceiling.toml"
    duration_s: FieldRunS
    """Duration of a Run [s]."""
    warmup_s: WarmupS
    """Time that figures exclude [s]."""
    paths: Annotated[Items[PathText], Field(min_length=1)]
    """Paths as ``SITE TO START SEED``."""
    queues_ms: Annotated[Items[Annotated[float, Field(gt=0, le=1000)]], Field(min_length=1)]
    """Queueing delays that the oracle may cause [ms]."""
    ours: Texts
    """Our controllers; the best of them is judged."""
    knowledge: Annotated[dict[Text, Text], Field(min_length=2)]
    """Scheme by what it knows; the first one knows nothing."""
    pieces: Annotated[dict[Text, Annotated[dict[Text, Text], Field(min_length=2)]], Field(min_length=1)]
    """Sets of pieces of knowledge, each by the options of `informed` that it sets: given alone, and left out of all."""
    clock: CeilingClock
    """The value of a clock."""


class EcnOnStarlink(StudyFile):
    """``studies/ecn-on-starlink.toml``; it has no published values, since no answer has been published."""

    FILE: ClassVar[str] = "studies/ecn-on-starlink.toml"
    first: Utc
    """Start of the first path."""
    every_h: Annotated[float, Field(ge=0, le=1000)]
    """Time from path to path [h]."""
    duration_s: RunS
    """Duration of a Run [s]."""
    duration_quick_s: RunS
    """With ``--quick`` [s]."""
    paths: Annotated[Items[Annotated[str, Field(pattern=r"^[^>]+>[^>]+$")]], Field(min_length=1)]
    """Paths as ``SITE > SERVER``."""
    paths_quick: Annotated[int, Field(ge=1, le=100)]
    """Number of paths with ``--quick``."""
    queues: Queues
    """Queue disciplines."""


class HintUser(Record):
    """A controller that uses hints, as schemes."""

    hinted: Text
    """With a correct hint."""
    wrong: Text
    """With a wrong one."""
    wrong_is: Text
    """The error of the wrong hint, as text."""
    none: Text
    """Without hints."""
    parent: Text
    """The controller that it was made from."""

    def late(self, offset_ms: int) -> str:
        """Return the scheme whose hint is `offset_ms` later than the handover."""
        if not offset_ms:
            return self.hinted
        name, _, tunables = self.hinted.partition(":")
        return f"{name}:{','.join(filter(None, [f'hint_offset_ms={offset_ms}', tunables]))}"


class HintLearned(LongRuns):
    """Runs of hint-error that are long enough for a clock."""

    offsets_ms: Annotated[Items[Annotated[int, Field(ge=-15_000, le=15_000)]], Field(min_length=1)]
    """Errors of the clock [ms]."""
    users: Annotated[Items[Name], Field(min_length=1)]
    """Controllers that learn a clock."""


class HintError(PublishedFile):
    """``studies/hint-error.toml``."""

    FILE: ClassVar[str] = "studies/hint-error.toml"
    duration_s: FieldRunS
    """Duration of a Run [s]."""
    warmup_s: WarmupS
    """Time that figures exclude [s]."""
    offsets_ms: Annotated[Items[Annotated[int, Field(ge=-15_000, le=15_000)]], Field(min_length=1)]
    """Errors of the hints [ms]."""
    paths: Annotated[Items[PathText], Field(min_length=1)]
    """Paths as ``SITE TO START SEED``."""
    users: Annotated[dict[Name, HintUser], Field(min_length=1)]
    """Controllers by name."""
    learned: HintLearned
    """Runs of those that learn a clock."""


class Huston2024(PublishedFile):
    """``studies/huston-2024.toml``."""

    FILE: ClassVar[str] = "studies/huston-2024.toml"
    seeds: Count
    """Number of days."""
    seeds_quick: Annotated[Count, Field(alias="seeds-quick")]
    """With ``--quick``."""
    preset: Text
    """Service of the path."""
    duration_s: Annotated[float, Field(ge=13, le=3600)]
    """Duration of a test [s], beyond the 12 s after which the article's flows are settled."""
    controllers: Texts
    """Controllers."""
    traffic: Texts
    """Background traffic of each hour."""
    host: HostEntry
    """Both hosts."""
    counterfactual: Counterfactuals
    """Changes to the paths, the most informative first."""
    order: Orders
    """Published order of the controllers, by background traffic."""


class HustonPing(PublishedFile):
    """``studies/huston-ping.toml``."""

    FILE: ClassVar[str] = "studies/huston-ping.toml"
    terminal: PlaceEntry
    """The terminal."""
    server: PlaceEntry
    """The pinged host."""
    flood: WindowsEntry
    """Windows of dense pings."""
    paced: WindowsEntry
    """Windows of sparse pings."""
    paced_quick: Annotated[WindowsEntry, Field(alias="paced-quick")]
    """With ``--quick``."""


class LeoField(PublishedFile):
    """``studies/leo-field.toml``."""

    FILE: ClassVar[str] = "studies/leo-field.toml"
    duration_s: FieldRunS
    """Duration of a Run [s]."""
    warmup_s: WarmupS
    """Time that figures exclude [s]."""
    left_out: Items[Text]
    """Controllers of the registry that do not take part."""
    paths: Annotated[Items[PathText], Field(min_length=1)]
    """Paths as ``SITE TO START SEED``."""
    design: Annotated[Items[PathText], Field(min_length=1)]
    """Paths on which the controllers were designed, which the study does not use."""
    controls: Texts
    """Static paths, each with background traffic if named."""
    control_seeds: Annotated[int, Field(ge=1, le=100)]
    """Number of seeds over static paths."""


class LeoKernel(StudyFile):
    """``studies/leo-kernel.toml``."""

    FILE: ClassVar[str] = "studies/leo-kernel.toml"
    duration_s: FieldRunS
    """Duration of a Run [s]."""
    paths: Annotated[Items[PathText], Field(min_length=1)]
    """Paths as ``SITE TO START SEED``."""
    paths_quick: Count
    """The first so many, with ``--quick``."""
    ours: Items[Name]
    """Our controllers."""
    others: Items[Name]
    """Those that they are compared with."""
    kept: Annotated[float, Field(gt=0, le=1)]
    """Least ratio of goodputs in the kernel over that in the simulator."""


class SatGuard(PublishedFile):
    """``studies/satguard.toml``."""

    FILE: ClassVar[str] = "studies/satguard.toml"
    pairs: Texts
    """Pairs of places."""
    pairs_quick: Texts
    """With ``--quick``."""
    loss: Name
    """Loss environment."""
    draws: Count
    """Draws of each pair."""
    draws_quick: Count
    """With ``--quick``."""
    first: Utc
    """Start of the first draw."""
    every_h: Annotated[float, Field(gt=0, le=24)]
    """Time between the starts of two draws [h]."""
    delay_app: Text
    """Application of the flow whose delays are measured."""
    delay_s: TestS
    """Its duration [s]."""
    delay_quick_s: TestS
    """With ``--quick`` [s]."""
    bulk_controller: Text
    """Controller of the bulk flow."""
    bulk_s: TestS
    """Its duration [s]."""
    bulk_quick_s: TestS
    """With ``--quick`` [s]."""
    page: Text
    """The page."""
    loads: Count
    """Loads on each network."""
    loads_quick: Count
    """With ``--quick``."""
    call: Text
    """The call."""
    call_s: TestS
    """Its duration [s]."""
    call_quick_s: TestS
    """With ``--quick`` [s]."""
    ablation: Texts
    """Variants of SatGuard."""
    host: HostEntry
    """Both hosts of the bulk flow."""


class CampaignEntry(Record):
    """A known file of a published campaign."""

    file: Text
    """Path below the data folder."""
    table: Literal["probes", "hops", "orientation"]
    """Kind of table that it holds."""
    site: Text | None = None
    """Site of all rows; default: the file has a column for it."""
    target: Text | None = None
    """Target of all rows; likewise."""


class Campaigns(StudyFile):
    """``studies/campaigns.toml``."""

    FILE: ClassVar[str] = "studies/campaigns.toml"
    campaigns: Annotated[dict[Name, CampaignEntry], Field(min_length=1)]
    """Files by name."""


FILES: Mapping[str, type[StudyFile]] = {
    kind.FILE.removeprefix("studies/").removesuffix(".toml"): kind
    for kind in (
        *(Apnic2022, Bbr3Starlink, Campaigns, Ceiling, EcnOnStarlink, HintError, Huston2024, HustonPing, LeoField),
        *(LeoKernel, MultiAccess, MultiAccessKernel, Outages, SatGuard),
        *T3P_FILES,
    )
}
"""Record of each file by the file's name without its ending."""

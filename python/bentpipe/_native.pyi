"""Types of the native half. Units and errors: docstrings of the Python modules that wrap it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

__version__: str
__emulator__: str

@final
class Profile:
    @staticmethod
    def from_table(
        metadata: str,
        t_s: NDArray[np.float64],
        hop: NDArray[np.uint32],
        direction: NDArray[np.uint8],
        kind: NDArray[np.uint8],
        value: NDArray[np.float64],
        valid: NDArray[np.bool_],
    ) -> Profile: ...
    def metadata_json(self) -> str: ...
    def table(self) -> dict[str, NDArray[Any]]: ...
    def content_hash(self) -> str: ...
    def reseed(self, seed: int) -> Profile: ...
    def with_queues(self, role: str, rules_json: str) -> Profile: ...
    def delay_ms(self, direction: str, t_s: NDArray[np.float64]) -> NDArray[np.float64]: ...
    @property
    def name(self) -> str: ...
    @property
    def duration_s(self) -> float: ...
    @property
    def start_unix_ns(self) -> int: ...
    @property
    def seed(self) -> int | None: ...

@final
class Network:
    @staticmethod
    def from_table(
        metadata: str,
        t_s: NDArray[np.float64],
        hop: NDArray[np.uint32],
        direction: NDArray[np.uint8],
        kind: NDArray[np.uint8],
        value: NDArray[np.float64],
        valid: NDArray[np.bool_],
    ) -> Network: ...
    def metadata_json(self) -> str: ...
    def table(self) -> dict[str, NDArray[Any]]: ...
    def content_hash(self) -> str: ...
    def profiles(self) -> list[Profile]: ...
    def reseed(self, seed: int) -> Network: ...
    @property
    def name(self) -> str: ...
    @property
    def duration_s(self) -> float: ...
    @property
    def start_unix_ns(self) -> int: ...
    @property
    def seed(self) -> int | None: ...
    @property
    def path_names(self) -> list[str]: ...

@final
class RunData:
    def samples(self) -> dict[str, Any]: ...
    def links(self) -> dict[str, Any]: ...
    def events(self) -> dict[str, Any]: ...
    def applications(self) -> dict[str, Any]: ...
    def summary_json(self) -> str: ...
    def content_hash(self) -> str: ...

@final
class Message:
    number: int
    size_bytes: int
    answer_bytes: int
    first_byte_s: float

@final
class Ack:
    now_s: float
    mss_bytes: int
    acked_bytes: int
    lost_bytes: int
    rtt_s: float | None
    srtt_s: float
    min_rtt_s: float | None
    delivery_bps: float | None
    delivered_bytes: int
    delivered_at_send_bytes: int | None
    lost_total_bytes: int
    inflight_bytes: int
    prior_inflight_bytes: int
    cwnd_limited: bool
    app_limited: bool
    in_recovery: bool
    ce_marks: int

def simulate(
    experiment_json: str,
    profiles: Sequence[Profile],
    on_progress: Callable[[float], object] | None = None,
    plugins: Mapping[str, Callable[[int, int, dict[str, float]], object]] | None = None,
    apps: Mapping[str, Callable[[dict[str, float], int], tuple[object, object]]] | None = None,
    on_hooks: Callable[[int, bytes], object] | None = None,
    on_rows: Callable[[bytes], object] | None = None,
    network: Network | None = None,
) -> RunData: ...
def traced_controller(start: bytes) -> str: ...

@final
class HookReplay:
    def __new__(
        cls,
        controller: str,
        options_json: str | None,
        plugins: Mapping[str, Callable[[int, int, dict[str, float]], object]],
    ) -> Self: ...
    def feed(self, part: bytes) -> str | None: ...
    def finish(self) -> int: ...

def ping(
    profile: Profile,
    sent_s: NDArray[np.float64],
    bytes: int,  # noqa: A002 - the native module's name
    seed: int,
) -> NDArray[np.float64]: ...
def one_way_delays(
    profile: Profile,
    up_s: NDArray[np.float64],
    down_s: NDArray[np.float64],
    size_bytes: int,
    recovery: str | None,
    seed: int,
) -> list[NDArray[np.float64]]: ...
def ping_replies(
    block: bytes, first_line: int
) -> tuple[
    NDArray[np.uint32],
    NDArray[np.int64],
    NDArray[np.uint32],
    NDArray[np.float64],
    tuple[NDArray[np.uint32], bytes],
]: ...
def table_rows(
    block: bytes, first_line: int, separator: str, kinds: list[str]
) -> tuple[NDArray[np.uint32], list[NDArray[Any]], tuple[NDArray[np.uint32], bytes]]: ...
def isolate() -> bool: ...
def emulate(
    user_namespace: bool,
    control: str,
    supervisor: str,
    report: str,
    apps: Mapping[str, Any] | None = None,
    nodes: Sequence[tuple[int, int, int | None]] = ...,
) -> int: ...
def emulate_node(control: int, host: int | None = None) -> int: ...
def node_names(profile: Profile) -> list[str]: ...
def encode_profile(profile: Profile) -> bytes: ...
def summarise_emulation(
    result_json: str,
    t_s: Sequence[float],
    flow: Sequence[int],
    goodput_bytes: Sequence[int],
    inflight_bytes: Sequence[int],
    retransmits: Sequence[int],
    rtt_smoothed_ms: Sequence[float],
) -> str: ...
def controllers() -> list[dict[str, Any]]: ...
def read_tunable(controller: str, name: str, text: str) -> float | str: ...
def recovery_schemes() -> list[dict[str, Any]]: ...
def read_recovery_tunable(scheme: str, name: str | None, text: str) -> float | str: ...
def build_profile(name: str, schedule: str, ground: str, params: str, origin: str, seed: int) -> Profile: ...
def access_parameters() -> str: ...

@final
class Satellites:
    @staticmethod
    def read(data: bytes, name: str, nearest_to_unix_ns: int | None, sha256: str) -> Satellites: ...
    @staticmethod
    def shells(shells: str, epoch_unix_ns: int, kept_at_unix_ns: int) -> Satellites: ...
    def with_lasers(self, fleets: str) -> Satellites: ...
    def with_grid(self, planes: int, per_plane: int) -> Satellites: ...
    def without_links(self) -> Satellites: ...
    def __len__(self) -> int: ...
    @property
    def superseded(self) -> int: ...
    @property
    def sha256(self) -> str | None: ...
    @property
    def has_links(self) -> bool: ...
    @property
    def lasers(self) -> int: ...
    def elements(self) -> dict[str, Any]: ...
    def age_warning(self, at_unix_ns: int) -> str | None: ...
    def failures(self, at_unix_ns: int) -> list[str]: ...
    def sky(
        self, place: tuple[float, float, float], at_unix_ns: int, min_elevation_deg: float
    ) -> list[dict[str, Any]]: ...
    def look_angles(
        self,
        place: tuple[float, float, float],
        times_unix_ns: NDArray[np.int64],
        first: int,
        azimuth_deg: NDArray[np.float64],
        elevation_deg: NDArray[np.float64],
        range_km: NDArray[np.float64],
    ) -> None: ...
    def routes(
        self,
        origin: tuple[float, float, float],
        to: tuple[float, float, float],
        times_unix_ns: NDArray[np.int64],
        min_elevation_deg: float,
        on_progress: Callable[[float], object] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.uint64], list[list[int]]]: ...
    def all_pairs(
        self,
        places: Sequence[tuple[float, float, float]],
        times_unix_ns: NDArray[np.int64],
        min_elevation_deg: float,
        threads: int | None = None,
        on_progress: Callable[[float], object] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.uint32]]: ...
    def schedule(
        self,
        place: tuple[float, float, float],
        start_unix_ns: int,
        duration_ns: int,
        gateways: str,
        min_elevation_deg: float,
        gso_exclusion_deg: float,
        slot_ns: tuple[int, int] | None,
        policy: str,
        seed: int,
        isl: str,
        track: str | None = None,
        on_progress: Callable[[float], object] | None = None,
    ) -> str: ...
    def network(self, settings: str, seed: int) -> Network: ...
    def ground_points(self, at_unix_ns: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...

def track_position(track: str, at_unix_ns: int) -> tuple[float, float, float]: ...
def scheduling_policies() -> list[tuple[str, str]]: ...
def feature_names(spec: object) -> list[str]: ...
def features_table(
    spec: object, t_s: NDArray[np.float64], values: NDArray[np.float64], covariates: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]: ...

@final
class FeatureStream:
    def __new__(cls, spec: object) -> Self: ...
    def push(self, t_s: float, value: float, covariates: list[float]) -> NDArray[np.float64]: ...
    @property
    def is_ready(self) -> bool: ...
    @property
    def reference(self) -> float: ...
    def value_of(self, prediction: float) -> float: ...

@final
class PredictorModel:
    @staticmethod
    def linear(
        columns: int,
        quantiles: int,
        phase_column: int | None,
        weights: NDArray[np.float64],
        errors: NDArray[np.float64],
    ) -> PredictorModel: ...
    @staticmethod
    def trees(arrays: object) -> PredictorModel: ...
    @staticmethod
    def lstm(quantiles: int, arrays: object) -> PredictorModel: ...
    @staticmethod
    def mean(members: list[PredictorModel], weights: list[float]) -> PredictorModel: ...
    @property
    def columns(self) -> int: ...
    @property
    def quantiles(self) -> int: ...
    def predict(self, rows: NDArray[np.float64]) -> NDArray[np.float64]: ...

"""The studies of T3P: simulated probes, measured ones in their place, and what each decides."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from shared_data import require_data

from bentpipe.errors import UserError
from bentpipe.studies.running import run_study
from bentpipe.studies.simulated import Windows
from bentpipe.studies.t3p import load_terminals, near_server, simulated_probes

START_NS = 1_700_000_007 * 10**9  # at :27 of a minute
ADDRESSES = ("192.168.1.1", "100.64.0.1", "172.16.250.1", "206.224.65.1", "8.8.8.8")


@pytest.fixture(scope="module")
def simulated():
    """The probes of the quick study, made once."""
    first = START_NS - START_NS % (15 * 10**9)
    return simulated_probes(list(load_terminals()), Windows([first, first + 3600 * 10**9], 200.0))


def ours(result, text: str) -> float | None:
    return next(row.ours for row in result.rows if row.quantity.startswith(text))


def holds(result, text: str) -> bool | None:
    return next(verdict.holds for verdict in result.verdicts if text in verdict.statement)


def bases(result) -> set[str]:
    return {row.basis.partition(":")[0] for row in result.rows}


def probes(folder: Path, rtt_ms: np.ndarray, every_s: float = 1.0, target: str = "8.8.8.8", name: str = "p") -> Path:
    t_s = np.arange(rtt_ms.size) * every_s
    file = folder / f"{name}.parquet"
    pl.DataFrame(
        {"unix_ns": START_NS + (t_s * 1e9).astype(np.int64), "site": "roof", "target": target, "rtt_ms": rtt_ms}
    ).with_columns(pl.col("rtt_ms").fill_nan(None)).write_parquet(file)
    return file


def test_the_papers_terminals_have_servers_near_their_pops():
    terminals = load_terminals()
    assert [place.name for place in terminals.values()] == ["BCN-1", "BCN-2", "CMG", "EDH", "LDN"]
    assert near_server(terminals["edh"]).lat_deg == pytest.approx(51.51, abs=0.1)


def test_latency_without_measurements_is_simulated(tmp_path, simulated, monkeypatch):
    monkeypatch.setattr("bentpipe.studies.t3p_latency.simulated_probes", lambda *_: simulated)
    result = run_study("t3p-latency", tmp_path, quick=True).result
    assert bases(result) == {"simulated"}
    medians = [row.ours for row in result.rows if row.quantity.startswith("median RTT: ")]
    assert len(medians) == 5
    assert ours(result, "median RTT, least") == min(medians)
    assert ours(result, "median RTT, greatest") == max(medians)
    assert holds(result, "comparable medians") is None


def test_latency_of_ones_own_pings(tmp_path, simulated, monkeypatch):
    monkeypatch.setattr("bentpipe.studies.t3p_latency.simulated_probes", lambda *_: simulated)
    rtt_ms = np.full(4000, 40.0)
    rtt_ms[::50] = 120.0  # 2 %
    result = run_study("t3p-latency", tmp_path, quick=True, data=probes(tmp_path, rtt_ms)).result
    assert ours(result, "median RTT: roof → 8.8.8.8") == 40.0
    assert ours(result, "99th percentile over median: roof") == 3.0
    assert holds(result, "long tails")
    assert not holds(result, "order of magnitude")
    assert bases(result) == {"measured", "simulated"}  # nobody pinged a cache


def test_a_median_of_zero_has_no_ratio(tmp_path, simulated, monkeypatch):
    """A tool that prints whole milliseconds, on a local network."""
    monkeypatch.setattr("bentpipe.studies.t3p_latency.simulated_probes", lambda *_: simulated)
    rtt_ms = np.zeros(2000)
    rtt_ms[::50] = 1.0
    result = run_study("t3p-latency", tmp_path, quick=True, data=probes(tmp_path, rtt_ms)).result
    assert ours(result, "median RTT, least") == 0.0
    assert ours(result, "99th percentile over median: roof") is None
    assert holds(result, "long tails") is None
    assert holds(result, "order of magnitude") is None


def test_spikes_of_whole_slots_hold_and_others_do_not(tmp_path):
    rng = np.random.default_rng(3)
    level = rng.choice([30.0, 34.0, 38.0, 80.0], 480, p=[0.3, 0.3, 0.3, 0.1])
    t_s = np.arange(0, 7200, 0.25)
    rtt_ms = level[(t_s / 15).astype(int)] + rng.gamma(2, 0.5, t_s.size)
    result = run_study("t3p-spikes", tmp_path, data=probes(tmp_path, rtt_ms, 0.25)).result
    assert bases(result) == {"measured"}
    assert 30 < ours(result, "median") < 40
    assert ours(result, "length of a lasting spike") in (15, 16)
    assert holds(result, "persist")
    assert holds(result, "multiples")
    assert holds(result, "lost") is None  # the file has no lost probe

    # As long, but of any length.
    ends = np.cumsum(rng.choice([45, 60, 75], 200) + rng.integers(0, 15, 200))
    rtt_ms = 30 + rng.gamma(2, 0.5, 12_000)
    for end in ends[ends < 11_900]:
        rtt_ms[end : end + rng.integers(13, 43)] = 80.0
    rtt_ms += 8 * rng.random(800)[np.arange(12_000) // 15]  # the slots
    result = run_study("t3p-spikes", tmp_path, data=probes(tmp_path, rtt_ms)).result
    assert holds(result, "persist")
    assert not holds(result, "multiples")

    noise = 30 + rng.gamma(2, 0.5, 7200)
    result = run_study("t3p-spikes", tmp_path, data=probes(tmp_path, noise)).result
    assert not holds(result, "persist")
    assert holds(result, "multiples") is None


def test_spikes_without_measurements_are_simulated(tmp_path):
    result = run_study("t3p-spikes", tmp_path, quick=True).result
    assert bases(result) == {"simulated"}
    assert ours(result, "line of the spikes") == pytest.approx(2 * ours(result, "median"))


def traceroutes(folder: Path, ends_ms: tuple[float, ...], name: str = "roof") -> Path:
    rows = [
        {"probe": name, "target": "8.8.8.8", "unix_ns": START_NS + k, "ttl": hop + 1, "address": address, "rtt_ms": end}
        for k in range(3)
        for hop, (address, end) in enumerate(zip(ADDRESSES, ends_ms, strict=True))
    ]
    file = folder / f"{name}-hops.parquet"
    pl.DataFrame(rows).write_parquet(file)
    return file


def test_the_share_of_the_bent_pipe_follows_from_traceroutes(tmp_path):
    file = traceroutes(tmp_path, (1.0, 25.0, 26.0, 27.0, 41.0))
    result = run_study("t3p-path", tmp_path, data=file).result
    assert bases(result) == {"measured"}
    assert ours(result, "bent pipe's share of the one-way path, least") == pytest.approx(24 / 41)
    assert ours(result, "one-way time of S2") == 12.0
    assert holds(result, "largest")
    assert holds(result, "52 to 65")
    far = traceroutes(tmp_path, (1.0, 25.0, 26.0, 27.0, 141.0), "far")
    result = run_study("t3p-path", tmp_path, data=far).result
    assert not holds(result, "largest")
    assert not holds(result, "52 to 65")


@pytest.mark.parametrize(
    "hops",
    [[("192.168.2.1", 1.0), ("216.194.71.1", 15.0), ("8.8.8.8", 20.0)], [("192.168.1.1", 1.0), ("100.64.0.1", 28.0)]],
    ids=["fibre", "no answer from the target"],
)
def test_traceroutes_without_a_bent_pipe_or_an_end_decide_nothing(tmp_path, hops):
    file = tmp_path / "hops.parquet"
    pl.DataFrame(
        [
            {"probe": "p", "target": "8.8.8.8", "unix_ns": START_NS, "ttl": k + 1, "address": address, "rtt_ms": rtt_ms}
            for k, (address, rtt_ms) in enumerate(hops)
        ]
    ).write_parquet(file)
    result = run_study("t3p-path", tmp_path, data=file).result
    assert [verdict.holds for verdict in result.verdicts] == [None, None]
    assert all(row.ours is None for row in result.rows)


def test_a_path_without_measurements_is_simulated_hop_by_hop(tmp_path):
    result = run_study("t3p-path", tmp_path, quick=True).result
    assert bases(result) == {"simulated"}
    for name in ("BCN-1", "EDH"):
        parts = [ours(result, f"one-way time of {segment}: {name}") for segment in ("S2", "S3", "S6")]
        assert ours(result, f"bent pipe's share of the one-way path: {name}") == pytest.approx(parts[0] / sum(parts))
        assert parts[0] > 5
        assert parts[1] > 0  # the fibre from the gateway to the PoP
    assert holds(result, "largest")


def test_orientation_of_a_fixed_and_a_moving_terminal(tmp_path):
    rng = np.random.default_rng(5)
    rare = rng.random(6000) < 0.1
    azimuth = np.where(rare, 1.85, rng.choice([0.35, 0.55, 0.75], 6000, p=[0.5, 0.3, 0.2]))
    latency = np.where(rare, 60.0, 30.0) + rng.gamma(2, 1, 6000)
    table = pl.DataFrame({"azimuth_deg": azimuth, "elevation_deg": 65.0, "latency_ms": latency})
    table.write_parquet(tmp_path / "stands.parquet")
    result = run_study("t3p-orientation", tmp_path, data=tmp_path / "stands.parquet").result
    assert bases(result) == {"measured"}
    assert ours(result, "width of the narrowest band that holds 90 % of azimuths") < 1.6
    assert all(verdict.holds for verdict in result.verdicts)

    turning = table.with_columns(azimuth_deg=pl.Series(rng.uniform(-180, 180, 6000)))
    turning.write_parquet(tmp_path / "moves.parquet")
    result = run_study("t3p-orientation", tmp_path, data=tmp_path / "moves.parquet").result
    assert result.verdicts == []
    assert "moved about" in result.notes[0]


def test_orientation_without_measurements_leaves_statements_undecided(tmp_path):
    result = run_study("t3p-orientation", tmp_path, quick=True).result
    assert bases(result) == {"simulated"}
    assert holds(result, "seldom changes") is None
    assert holds(result, "less popular") is None
    assert holds(result, "below 100 ms") is True


def test_a_file_without_the_required_tables_is_refused(tmp_path):
    file = probes(tmp_path, np.full(100, 30.0))
    with pytest.raises(UserError, match="no column 'probe'"):
        run_study("t3p-path", tmp_path, data=file)


def test_the_published_campaigns(tmp_path):
    result = run_study("t3p-path", tmp_path, data=require_data()).result
    assert sum(row.quantity.startswith("one-way time of S2, median over 24 probes") for row in result.rows) == 1
    result = run_study("t3p-orientation", tmp_path, data=require_data()).result
    (night,) = (row.ours for row in result.rows if "of azimuths" in row.quantity and "(4)" in row.quantity)
    assert night == pytest.approx(1.59, abs=0.01)  # a vessel in its harbour

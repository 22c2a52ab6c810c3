"""Measurements drawn at random, and the logs in which tools would print them."""

import io
import json
import random

import polars as pl
from reader_texts import TEXTS


def made_up(random_: random.Random) -> tuple[pl.DataFrame, dict[str, bytes]]:
    """Probes, and how some tools print them: with lost ones, numbers that wrap, and every line ending."""
    count = random_.randint(2, 300)
    first = random_.choice((1, 1, 65_500))
    every_us = random_.choice((10_000, 200_000, 1_000_000))
    start_us = random_.randint(1_400_000_000, 1_900_000_000) * 10**6 + random_.randrange(10**6)
    lost = {n for n in range(1, count - 1) if random_.random() < random_.choice((0.0, 0.1))}
    trips_us = [random_.randint(1, 90) * 100 if n not in lost else None for n in range(count)]
    sent_us = [start_us + n * every_us for n in range(count)]
    truth = pl.DataFrame(
        {"rtt_ms": [None if trip is None else trip / 1e3 for trip in trips_us], "unix_us": sent_us},
        schema={"rtt_ms": pl.Float64, "unix_us": pl.Int64},
    )
    end = random_.choice(("\n", "\r\n"))
    lines = ["PING pop (192.0.2.1) 56(84) bytes of data."] if first == 1 else []
    rows = ["unix_us,what,rtt_ms,seq"]
    for n, (sent, trip) in enumerate(zip(sent_us, trips_us, strict=True)):
        if trip is not None:
            at = sent + trip
            lines.append(
                f"[{at // 10**6}.{at % 10**6:06d}] 64 bytes from 192.0.2.1: icmp_seq={(first + n) % 65536} "
                f"ttl=57 time={trip / 1e3:.1f} ms"
            )
        elif random_.random() < 0.5:
            lines.append(f"[{sent // 10**6}.{sent % 10**6:06d}] no answer yet for icmp_seq={(first + n) % 65536}")
        value = random_.choice(("-1", "", "lost", "NaN")) if trip is None else f"{trip / 1e3}"
        rows.append(f"{sent},x,{value},{first + n}")
    texts = {"ping": (end.join(lines) + end).encode(), "csv": (end.join(rows) + end).encode()}
    return truth, texts


Probes = list[tuple[int, float | None]]
#: Statistics of ping: probes sent and received, and the total time [ms], in the forms of iputils, BSD and busybox.
TOTALS = (
    "{sent} packets transmitted, {received} received, 3% packet loss, time {ms}ms",
    "{sent} packets transmitted, {received} received, 9.1e-05% packet loss, time {ms}ms",
    "{sent} packets transmitted, {received} packets received, 2.5% packet loss",
    "{sent} packets transmitted, {received} packets received, 2 duplicates, 3% packet loss",
)


def totals(random_: random.Random, name: str, probes: Probes, *, timed: bool) -> str:
    """Return ping's statistics; without timestamps they must have the total time."""
    line = random_.choice(TOTALS if timed else TOTALS[:2])
    received = sum(rtt_ms is not None for _, rtt_ms in probes)
    ms = (probes[-1][0] - probes[0][0]) // 1000
    return f"\n--- {name} ping statistics ---\n{line.format(sent=len(probes), received=received, ms=ms)}\n"


def behind(runs: list[Probes]) -> Probes:
    """Where runs without times come to lie: from 1970 on, each a second behind the one before."""
    results: Probes = []
    for probes in runs:
        shift = (results[-1][0] + 10**6 if results else 0) - probes[0][0]
        results += [(sent_us + shift, rtt_ms) for sent_us, rtt_ms in probes]
    return results


def fping_of(random_: random.Random, host: str, number: int, at: str, rtt_ms: float | None, *, as_json: bool) -> str:
    """A line of fping; empty: it says nothing of a lost probe."""
    if rtt_ms is None and random_.random() < 0.5:
        return ""
    if as_json:
        about = {"timestamp": at, "host": host, "seq": number}
        return json.dumps({"timeout": about} if rtt_ms is None else {"resp": {**about, "size": 64, "rtt": rtt_ms}})
    outcome = "timed out (9 avg, 1% loss)" if rtt_ms is None else f"64 bytes, {rtt_ms} ms (9.9 avg, 0% loss)"
    return f"[{at}] {host} : [{number}], {outcome}"


def parquet_of(random_: random.Random, probes: dict[str, Probes]) -> bytes:
    """Probes by target as polars or pandas writes them: with Parquet's own instants."""
    rows = [(sent_us, rtt_ms, target) for target, of in probes.items() for sent_us, rtt_ms in of]
    table = pl.DataFrame(rows, schema={"unix_ns": pl.Int64, "rtt_ms": pl.Float64, "target": pl.String}, orient="row")
    zone = random_.choice((None, "UTC", "Pacific/Auckland"))
    instants = pl.col("unix_ns").cast(pl.Datetime("us")).dt.cast_time_unit(random_.choice(("us", "ns")))
    if zone is not None:
        instants = instants.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    file = io.BytesIO()
    table.with_columns(instants.alias("unix_ns")).write_parquet(file)
    return file.getvalue()


def made_up_folder(random_: random.Random) -> tuple[dict[str, Probes], dict[str, bytes], bool]:
    """Probes by target, [µs] and [ms], the files that several tools keep of them, and whether all of these have times.

    Each prober is started up to three times, by up to three targets, perhaps all at once; ping prints all into one
    file, with its headings or without, with times or without, irtt into files of one name. A traceroute has no times.
    """
    truth: dict[str, Probes] = {}
    output: dict[str, list[tuple[int, str]]] = {"ping": [], "fping": [], "csv": []}
    files: dict[str, bytes] = {}
    frames: dict[str, Probes] = {}
    headed = random_.random() < 0.6
    timed = not headed or random_.random() < 0.7
    ending = not timed or random_.random() < 0.5
    as_json = random_.random() < 0.5
    together_us = random_.choice((None, random_.randint(1_400_000_000, 1_900_000_000) * 10**6))
    for target in range(random_.randint(1, 3)):
        names = {"ping": f"192.0.2.{target}", "fping": f"198.51.100.{target}", "csv": f"host{target}"}
        at_us = random_.randint(1_400_000_000, 1_900_000_000) * 10**6
        if together_us is not None:
            at_us = together_us + random_.randrange(30_000) * 100
        runs = runs_of(random_, at_us)
        if headed:
            begin = f"PING pop{target} ({names['ping']}) 56(84) bytes of data."
            output["ping"] += [(probes[0][0] - 1, begin) for probes in runs]
            ends = [(probes[-1][0] + 160_000, totals(random_, f"pop{target}", probes, timed=timed)) for probes in runs]
            output["ping"] += ends if ending else []
        for again, probes in enumerate(runs):
            for n, (sent_us, rtt_ms) in enumerate(probes):
                came_us = sent_us + round((rtt_ms or 0) * 1e3)
                at = f"{came_us // 10**6}.{came_us % 10**6:06d}"
                if rtt_ms is not None:
                    text = f"64 bytes from {names['ping']}: icmp_seq={n + 1} ttl=57 time={rtt_ms} ms"
                    output["ping"].append((came_us, f"[{at}] {text}" if timed else text))
                if fping := fping_of(random_, names["fping"], n, at[:-1], rtt_ms, as_json=as_json):
                    output["fping"].append((came_us, fping))
                value = "-1" if rtt_ms is None else rtt_ms
                output["csv"].append((sent_us, f"{sent_us},{value},{n + 1},{names['csv']}"))
            irtt = f"203.0.113.{target}:{2112 + again}"
            files[f"t{target}/r{again}/irtt.json"] = irtt_of(probes, irtt)
            truth[irtt] = probes
        whole = [probe for probes in runs for probe in probes]
        truth |= dict.fromkeys((names["fping"], names["csv"], f"frame{target}"), whole)
        truth[f"pop{target}" if headed else names["ping"]] = whole if timed else behind(runs)
        frames[f"frame{target}"] = whole
    files["frame.parquet"] = parquet_of(random_, frames)
    if random_.random() < 0.5:
        files["trace.txt"] = TEXTS["traceroute"][0]
    for name, lines in output.items():
        head = ["unix_us,rtt_ms,seq,host"] if name == "csv" else []
        text = "\n".join([*head, *(line for _, line in sorted(lines, key=lambda line: line[0]))]) + "\n"
        files[f"{name}.log"] = text.encode()
    results, atlas = atlas_of(random_)
    if atlas:  # else there is nothing to read
        files["atlas.json"] = json.dumps(results).encode()
        truth["atlas"] = atlas
    return truth, files, timed


def runs_of(random_: random.Random, at_us: int) -> list[Probes]:
    """Up to three runs of a prober, one behind the other from a time on."""
    runs: list[Probes] = []
    for _ in range(random_.randint(1, 3)):
        every_us = random_.choice((10_000, 200_000, 1_000_000))
        longest = 90 if every_us == 10_000 else 1_500
        count = random_.randint(2, 120)
        probes: Probes = []
        for n in range(count):
            lost = 0 < n < count - 1 and random_.random() < 0.1
            probes.append((at_us + n * every_us, None if lost else random_.randint(1, longest) / 10))
        runs.append(probes)
        at_us = probes[-1][0] + 200_000 + round(10 ** random_.uniform(2, 6.8)) * 100
    return runs


def atlas_of(random_: random.Random) -> tuple[list[dict], Probes]:
    """Results of RIPE Atlas, and the probes in them."""
    results, result = [], []
    for n in range(random_.randint(1, 5)):
        start_s = 1_500_000_000 + 240 * n
        answers = random_.choices(({"rtt": 40.5}, {"x": "*"}, {"error": "sendto failed"}), (6, 1, 1), k=3)
        about = {"type": "ping", "prb_id": 7, "msm_id": 1, "timestamp": start_s, "dst_addr": "atlas"}
        results.append({**about, "result": answers})
        sent = [answer for answer in answers if "error" not in answer]
        result += [((start_s + k) * 10**6, answer.get("rtt")) for k, answer in enumerate(sent)]
    return results, result


def irtt_of(probes: Probes, target: str) -> bytes:
    """Return irtt's document for probes."""
    trips = [
        {
            "seqno": n,
            "lost": "true" if rtt_ms is None else "false",
            "timestamps": {"client": {"send": {"wall": sent_us * 1000}}},
            "delay": {} if rtt_ms is None else {"rtt": round(rtt_ms * 1e6)},
        }
        for n, (sent_us, rtt_ms) in enumerate(probes)
    ]
    version = {"irtt": "0.9.1", "json_format": 1}
    return json.dumps(
        {"version": version, "config": {"remote_address": target}, "stats": {}, "round_trips": trips}
    ).encode()


def iperf3_of(rates_bps: list[float], streams: int) -> bytes:
    """Return iperf3's document for a download, with streams some hundred microseconds apart."""
    intervals = [
        {
            "streams": [
                {
                    "socket": 5 + s,
                    "start": n + s * 4e-4,
                    "end": n + 1 + s * 4e-4,
                    "bytes": round(bps / 8 / streams),
                    "bits_per_second": bps / streams,
                    "omitted": False,
                    "sender": False,
                }
                for s in range(streams)
            ]
        }
        for n, bps in enumerate(rates_bps)
    ]
    test = {"protocol": "TCP", "reverse": 1}
    start = {"version": "iperf 3.16", "timestamp": {"timesecs": 1_700_000_000}, "test_start": test, "connected": []}
    return json.dumps({"start": start, "intervals": intervals, "end": {}}).encode()

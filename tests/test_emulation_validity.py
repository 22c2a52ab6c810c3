"""Validity of a Run: lateness, the number of packets it takes to judge, and losses outside the path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.cli.run import summary_line
from bentpipe.execution.emulation import lateness
from bentpipe.execution.emulation.check import Lateness
from bentpipe.execution.emulation.result import EmulationResult


def run_of(delivered, p50_ms, most_ms, late=0, wakeups_late=0, waited_ms=0.1, wakeup_max_ms=0.2):
    relay = {
        "delivered": delivered,
        "lost": 0,
        "refused": 0,
        "kernel_rejected": 0,
        "lateness_n": delivered,
        "late": late,
        "lateness_p50_ms": p50_ms,
        "lateness_p99_ms": most_ms,
        "lateness_max_ms": most_ms,
        "wakeups": delivered,
        "wakeups_late": wakeups_late,
        "wakeup_p99_ms": 0.1,
        "wakeup_max_ms": wakeup_max_ms if delivered else None,
        "ingress_wait_p99_ms": waited_ms,
    }
    return EmulationResult(done={"relay": relay, "device_drops": [0, 0], "flows": [], "gateway": None})


def test_a_path_beside_that_is_late_makes_the_run_invalid():
    late, in_time = run_of(1000, 0.1, 9.0, late=900), run_of(1000, 0.1, 0.2)
    assert in_time.why_invalid is None
    in_time.done["beside"] = late.done["relay"]
    assert in_time.why_invalid.startswith("on the path beside: 900 of 1000 packets")


@pytest.mark.parametrize(("n", "most_late"), [(299, 6), (1000, 15), (1_000_000, 10_164), (10_000_000, 100_518)])
def test_a_run_is_late_when_its_count_refutes_one_percent(n, most_late):
    """The numbers are those of scipy.stats.binomtest(k, n, 0.01, "greater") at 5 %."""
    assert lateness.verdict(most_late, n, 2.0) != "late"
    assert lateness.verdict(most_late + 1, n, 2.0) == "late"


@pytest.mark.parametrize("n", [6, 100, 298])
def test_with_few_packets_only_the_latest_decides(n):
    for late in (1, n // 2, n):
        assert lateness.verdict(late, n, 10.0) == "too few"
        assert lateness.verdict(late, n, 10.1) == "late"


@pytest.mark.parametrize(
    ("late", "n", "verdict"),
    [
        (0, 0, "too few"),
        (0, 298, "too few"),
        (0, 299, "in time"),
        (1, 299, "undecided"),
        (1, 473, "in time"),
        (10_000, 1_000_000, "undecided"),
        (9_836, 1_000_000, "in time"),
        (10**7, 10**9, "undecided"),
        (10**9, 10**9, "late"),
    ],
)
def test_verdict_of_a_number_of_late_packets(late, n, verdict):
    assert lateness.verdict(late, n, 2.0 if late else None) == verdict


def test_enough_is_the_smallest_number_that_confirms_the_claim():
    assert (
        (1 - lateness.SHARE) ** lateness.ENOUGH
        <= 1 - lateness.CONFIDENCE
        < (1 - lateness.SHARE) ** (lateness.ENOUGH - 1)
    )


@given(st.integers(0, 3000), st.data())
def test_one_more_late_packet_never_improves_the_verdict(n, data):
    late = data.draw(st.integers(0, n))
    order = ["in time", "too few", "undecided", "late"]
    result = [order.index(lateness.verdict(k, n, 2.0)) for k in sorted({late, min(n, late + 1), n})]
    assert result == sorted(result)


@given(st.integers(1, 3000), st.floats(0, 200), st.floats(0, 200), st.data())
def test_a_later_packet_never_improves_the_verdict(n, one_ms, other_ms, data):
    late = data.draw(st.integers(0, n))
    sooner, later = (lateness.verdict(late, n, ms) == "late" for ms in sorted((one_ms, other_ms)))
    assert sooner <= later


def test_a_share_of_late_packets_makes_a_run_invalid():
    assert run_of(299, 0.04, 2.345, late=6).why_invalid is None
    assert run_of(299, 0.04, 2.345, late=7).why_invalid == (
        "7 of 299 packets were over 1 ms late, with 95% confidence more than 1% of such packets, the latest 2.35 ms: "
        "the machine is too busy or too slow for this path"
    )


def test_too_few_packets_are_reported():
    ping = run_of(6, 0.04, 2.69, late=1)
    assert ping.why_invalid is None
    assert ping.verdict == "too few"
    assert summary_line(ping) == (
        "6 packets delivered, 0 lost on the path; the latest 2.69 ms late; the Run counts (of fewer than 299 packets "
        "only the latest is judged)"
    )
    late = run_of(6, 2.0, 12.0, late=6)
    assert late.verdict == "late"
    assert summary_line(late) == "6 packets delivered, 0 lost on the path; the latest 12 ms late"


@pytest.mark.parametrize(("n", "bound_ms"), [(6, 10), (298, 10), (299, 100), (10_000_000, 100)])
def test_one_very_late_packet_makes_a_run_invalid(n, bound_ms):
    assert run_of(n, 0.04, bound_ms, late=1).why_invalid is None
    assert run_of(n, 0.04, bound_ms + 1, late=1).why_invalid == (
        f"one of {n} packets was {bound_ms + 1} ms late (bound {bound_ms} ms): the machine stalled"
    )


def test_a_relay_that_wakes_late_makes_a_run_invalid():
    assert run_of(1000, 0.04, 0.2, wakeups_late=15).why_invalid is None
    assert run_of(1000, 0.04, 0.2, wakeups_late=16).why_invalid.startswith("16 of 1000 wake-ups of the relay were over")
    assert run_of(100, 0.04, 0.2, wakeups_late=100, wakeup_max_ms=10.0).why_invalid is None
    assert run_of(100, 0.04, 0.2, wakeups_late=1, wakeup_max_ms=11.0).why_invalid == (
        "one of 100 wake-ups of the relay was 11 ms late (bound 10 ms): the machine stalled"
    )
    assert "99 % of them at most 0.2 ms late" in summary_line(run_of(1000, 0.04, 0.2))


def test_a_long_ingress_wait_makes_a_run_invalid():
    assert run_of(10_000, 0.04, 0.2, waited_ms=9.0).why_invalid is None
    assert run_of(10_000, 0.04, 0.2, waited_ms=440.0).why_invalid == (
        "1 % of the packets may have waited 440 ms before they entered the path (bound 10 ms): the programs send "
        "more than this machine can carry"
    )


def test_wall_clock_drift_makes_a_run_invalid():
    run = run_of(10_000, 0.04, 0.2)
    for off_ms, says in ((None, None), (0.4, None), (2500.0, "it is 2.5e+03 ms off the Profile's")):
        run.done["relay"]["wall_clock_off_ms"] = off_ms
        assert run.why_invalid is None if says is None else says in run.why_invalid


def test_unreadable_socket_records_make_a_run_invalid():
    run = run_of(10_000, 0.04, 0.2)
    run.done["sockets_unreadable"] = 3
    assert run.why_invalid == "3 of the kernel's socket records could not be read: `samples` is incomplete"


def test_a_late_start_of_a_flow_is_a_warning():
    run = run_of(10_000, 0.04, 0.2)
    run.done["start_late_max_ms"] = 0.2
    assert run.warning is None
    run.done["start_late_max_ms"] = 4.1
    assert run.why_invalid is None
    assert run.warning.startswith("a flow of the race began 4.1 ms after its time")


def test_a_run_without_packets_is_valid():
    assert run_of(0, None, None).why_invalid is None


def test_refused_offload_is_a_warning_and_malformed_buffers_make_a_run_invalid():
    run = run_of(18, 0.04, 0.1)
    assert run.warning is None
    run.started = {"offload_refused": None}
    assert run.warning is None
    run.started = {"offload_refused": "Operation not supported (os error 95)"}
    assert "(Operation not supported (os error 95)): buffers that the relay cannot split do not enter" in run.warning
    assert run.why_invalid is None  # no such packet was sent
    run.started = {"offload_refused": None}
    run.done["relay"]["unnumbered"] = 9
    assert run.warning.startswith("9 packets belong to TCP connections beyond the largest flow number")
    run.done["relay"] |= {"unnumbered": 0, "loops": 0}
    assert run.warning is None
    run.done["relay"]["loops"] = 3
    assert run.warning == (
        "the Profile was played 4 times (`at_end` loop): the events are those of the first passage alone"
    )
    run.done["relay"]["malformed"] = 3
    assert run.why_invalid == "3 buffers could not be split into packets, and were dropped before the path"


@pytest.mark.parametrize(
    ("where", "name", "says"),
    [
        ("relay", "too_large", "7 packets were larger than the path's MTU and did not enter it (`mtu`)"),
        ("relay", "malformed", "7 buffers could not be split into packets, and were dropped before the path"),
        (
            "gateway",
            "dropped_limit",
            "7 SYNs and datagrams were dropped because the gateway has room for 256 connections",
        ),
        ("gateway", "flows_evicted", "7 datagram flows in use were evicted from the gateway by others"),
        ("gateway", "dropped_outside", "7 packets were rejected by this machine's own network, behind the path"),
        ("gateway", "dropped_echo_not_allowed", "7 echo requests were not allowed by this machine"),
        ("gateway", "dropped_fragments", "7 fragments were dropped because the gateway had too many to reassemble"),
        ("gateway", "dropped_busy", "7 packets were dropped because the gateway to the Internet was too busy"),
    ],
)
def test_losses_outside_the_path_make_a_run_invalid(where, name, says):
    run = run_of(1000, 0.04, 0.1)
    run.done["relay"]["not_forwarded"] = 9  # link-local multicast, as with every IPv6
    run.done["gateway"] = {"places": 256}
    assert run.why_invalid is None
    run.done[where][name] = 7
    assert run.why_invalid.startswith(says)


def test_missing_rows_make_a_run_invalid():
    run = run_of(1000, 0.04, 0.1)
    run.done["rows_lost"] = 40
    assert run.why_invalid == "40 rows of its tables are missing, because this command was stopped"


@pytest.mark.parametrize(
    ("stopped", "ending", "says"),
    [
        ("program", {"code": 0}, None),
        ("profile_ended", {"signal": 15}, "the Profile was over (`at_end` stop): the program was stopped"),
        ("requested", None, "by request: the program was killed, since it ignored the signal to stop"),
    ],
)
def test_the_reason_of_a_stop_is_reported(stopped, ending, says):
    run = run_of(18, 0.04, 0.1)
    run.done |= {"stopped": stopped, "ending": ending}
    assert run.why_ended == says


def test_missing_and_misplaced_packets_of_a_capture_are_reported():
    run = run_of(18, 0.04, 0.1)
    run.done["capture"] = {"written": [9, 9], "not_captured": 0, "out_of_order": 0, "failed": None}
    assert run.why_incomplete is None
    run.done["capture"] |= {"not_captured": 3, "out_of_order": 2}
    assert run.why_incomplete == (
        "3 packets came faster than they could be written, and are in neither file; 2 packets stand behind later ones, "
        "which overtook them on the path"
    )
    assert run.why_invalid is None


@pytest.mark.parametrize(
    ("delivered", "ms", "says"),
    [
        (0, None, "no packet passed"),
        (lateness.ENOUGH - 1, 0.04, "half of 298 packets at most 0.04 ms late"),
        (lateness.ENOUGH, 2.3, "99 % of 299 packets at most 2.3 ms late"),
        (1990, 2.3, "99 % of 1990 packets at most 2.3 ms late"),
    ],
)
def test_a_trials_lateness_names_its_number_of_packets(delivered, ms, says):
    late = Lateness.of(run_of(delivered, 0.04 if delivered else None, 2.3 if delivered else None).done["relay"])
    assert (late.ms, str(late)) == (ms, says)

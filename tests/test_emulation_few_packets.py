"""What is said of a Run with few packets, of which there is no 99th percentile."""

import pytest

from bentpipe.cli.run import summary_line
from bentpipe.emulation.check import Lateness
from bentpipe.emulation.engine import FEW_PACKETS, Emulated


def run_of(delivered, p50_ms, most_ms, waking_ms=0.1, waited_ms=0.1):
    """With few packets the relay's 99th percentile is the latest one."""
    relay = {
        "delivered": delivered,
        "lost": 0,
        "refused": 0,
        "not_taken": 0,
        "lateness_p50_ms": p50_ms,
        "lateness_p99_ms": most_ms,
        "lateness_max_ms": most_ms,
        "waking_p99_ms": waking_ms,
        "entrance_wait_p99_ms": waited_ms,
    }
    return Emulated(done={"relay": relay, "device_drops": [0, 0], "flows": [], "gateway": None})


def test_one_late_packet_of_a_few_does_not_make_a_run_invalid():
    ping = run_of(18, 0.04, 2.345, waking_ms=2.4)
    assert ping.why_invalid is None
    assert summary_line(ping) == "18 packets through the path, 0 lost on it; the latest 2.35 ms late"


def test_if_half_of_a_few_were_late_it_is_not_valid():
    assert run_of(18, 1.5, 12.0).why_invalid == (
        "half of 18 packets were over 1.5 ms late (bound 1 ms), the latest 12 ms: the machine is too busy or too slow "
        "for this path"
    )


@pytest.mark.parametrize(
    ("late_ms", "waking_ms", "says"), [(2.0, 0.1, "1 % of the packets"), (0.2, 2.0, "the relay awoke")]
)
def test_of_many_the_99th_percentile_counts(late_ms, waking_ms, says):
    many = run_of(FEW_PACKETS, 0.04, late_ms, waking_ms)
    assert many.why_invalid.startswith(says)
    assert f"99 % of them at most {late_ms:.3g} ms late" in summary_line(many)


def test_packets_that_wait_before_the_path_make_a_run_invalid():
    assert run_of(10_000, 0.04, 0.2, waited_ms=9.0).why_invalid is None
    assert run_of(10_000, 0.04, 0.2, waited_ms=440.0).why_invalid == (
        "1 % of the packets may have waited 440 ms before the path began (bound 10 ms): the programs send more than "
        "this machine can carry"
    )


def test_a_wall_clock_that_was_set_makes_a_run_invalid_that_is_to_follow_it():
    run = run_of(10_000, 0.04, 0.2)
    for off_ms, says in ((None, None), (0.4, None), (2500.0, "it is 2.5e+03 ms off the Profile's")):
        run.done["relay"]["wall_clock_off_ms"] = off_ms
        assert run.why_invalid is None if says is None else says in run.why_invalid


def test_records_of_sockets_that_cannot_be_read_make_a_run_invalid():
    run = run_of(10_000, 0.04, 0.2)
    run.done["sockets_unreadable"] = 3
    assert run.why_invalid == "3 of the kernel's records of sockets could not be read: samples lack some"


def test_a_flow_that_begins_late_is_told():
    run = run_of(10_000, 0.04, 0.2)
    run.done["start_late_max_ms"] = 0.2
    assert run.warning is None
    run.done["start_late_max_ms"] = 4.1
    assert run.why_invalid is None
    assert run.warning.startswith("a flow of the race began 4.1 ms after its time")


def test_without_a_packet_there_is_nothing_to_be_late():
    assert run_of(0, None, None, None).why_invalid is None


def test_what_a_kernel_refuses_is_said_and_what_is_lost_by_it_makes_a_run_invalid():
    run = run_of(18, 0.04, 0.1)
    assert run.warning is None
    run.started = {"offload_refused": None}
    assert run.warning is None
    run.started = {"offload_refused": "Operation not supported (os error 95)"}
    assert "(Operation not supported (os error 95)): of what the relay cannot take apart nothing enters" in run.warning
    assert run.why_invalid is None  # nothing of the sort was sent
    run.started = {"offload_refused": None}
    run.done["relay"]["unnumbered"] = 9
    assert run.warning.startswith("9 packets of TCP connections beyond those that are told apart")
    run.done["relay"] |= {"unnumbered": 0, "loops": 0}
    assert run.warning is None
    run.done["relay"]["loops"] = 3
    assert run.warning == (
        "the Profile was played 4 times (--at-end loop): the events are those of the first time alone, and the links "
        "lack what was inside when the next began"
    )
    run.done["relay"]["malformed"] = 3
    assert run.why_invalid == "3 packets could not be taken apart, and were lost before the path"


@pytest.mark.parametrize(
    ("where", "name", "says"),
    [
        ("relay", "too_large", "7 packets were larger than the path's MTU and did not enter it (--mtu)"),
        ("relay", "malformed", "7 packets could not be taken apart, and were lost before the path"),
        ("gateway", "dropped_limit", "7 SYNs and datagrams found no place at the gateway, which has 256 for"),
        ("gateway", "flows_evicted", "7 flows of datagrams in use lost their place at the gateway to others"),
        ("gateway", "dropped_outside", "7 packets were not taken by this machine's own network, behind the path"),
        ("gateway", "dropped_echo_not_allowed", "7 echo requests were not let out by this machine"),
        ("gateway", "dropped_fragments", "7 fragments were too many at once for the gateway to put together"),
        ("gateway", "dropped_busy", "7 packets found the gateway to the Internet too busy"),
    ],
)
def test_what_is_lost_beside_the_path_makes_a_run_invalid(where, name, says):
    run = run_of(1000, 0.04, 0.1)
    run.done["relay"]["not_forwarded"] = 9  # link-local multicast, as with every IPv6
    run.done["gateway"] = {"places": 256}
    assert run.why_invalid is None
    run.done[where][name] = 7
    assert run.why_invalid.startswith(says)


def test_rows_that_are_missing_make_a_run_invalid():
    run = run_of(1000, 0.04, 0.1)
    run.done["rows_lost"] = 40
    assert run.why_invalid == "40 rows of its tables are missing, since this command stood still"


@pytest.mark.parametrize(
    ("stopped", "ending", "says"),
    [
        ("program", {"code": 0}, None),
        ("profile_ended", {"signal": 15}, "the Profile was over (--at-end stop): the program was asked to end"),
        ("asked", None, "it was asked for: the program was asked to end, did not, and was ended"),
    ],
)
def test_who_ended_the_program_is_said(stopped, ending, says):
    run = run_of(18, 0.04, 0.1)
    run.done |= {"stopped": stopped, "ending": ending}
    assert run.why_ended == says


def test_what_a_capture_lacks_is_said():
    run = run_of(18, 0.04, 0.1)
    run.done["capture"] = {"written": [9, 9], "not_captured": 0, "out_of_order": 0, "failed": None}
    assert run.why_incomplete is None
    run.done["capture"] |= {"not_captured": 3, "out_of_order": 2}
    assert run.why_incomplete == (
        "3 packets came faster than they could be written, and are in neither file; 2 packets stand behind later ones, "
        "which passed them inside the path"
    )
    assert run.why_invalid is None


@pytest.mark.parametrize(
    ("delivered", "ms", "says"),
    [
        (0, None, "no packet passed"),
        (FEW_PACKETS - 1, 0.04, "half of 99 packets at most 0.04 ms late"),
        (FEW_PACKETS, 2.3, "99 % of 100 packets at most 2.3 ms late"),
        (1990, 2.3, "99 % of 1990 packets at most 2.3 ms late"),
    ],
)
def test_a_trial_says_of_how_many_packets_its_figure_is(delivered, ms, says):
    late = Lateness.of(run_of(delivered, 0.04 if delivered else None, 2.3 if delivered else None).done["relay"])
    assert (late.ms, str(late)) == (ms, says)

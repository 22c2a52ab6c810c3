"""The study `multi-access`: a small run of all of it."""

from bentpipe.studies import find_study
from bentpipe.studies.multi_access import QUANTITIES
from bentpipe.studies.multi_access_file import MultiAccess
from bentpipe.studies.multi_access_runs import SCHEMES
from bentpipe.studies.study import Request


def test_a_small_run_has_every_row_and_statement(tmp_path, monkeypatch):
    file = MultiAccess.load()
    cases = {name: file.case[name] for name in ("near", "equal")}
    small = file.replace(case=cases, learn_s=600.0, bulk_quick_s=10.0, app_quick_s=15.0)
    monkeypatch.setattr(MultiAccess, "load", classmethod(lambda _: small))
    shares = []
    result = find_study("multi-access").run(Request(tmp_path, quick=True, on_progress=shares.append))
    ours = {row.quantity: row.ours for row in result.rows}
    assert all(
        f"{case}: {quantity}, {scheme}" in ours for case in cases for quantity in QUANTITIES for scheme in SCHEMES
    )
    both = ours["near: bulk goodput, min-rtt"]
    assert both > max(ours["near: bulk goodput, leo alone"], ours["near: bulk goodput, fibre alone"])
    assert ours["equal: stream, median delay, forecast"] < ours["equal: stream, median delay, min-rtt"]
    assert ours["near: stream, median delay, fibre alone"] < 12
    assert len(result.verdicts) == 7 * len(cases)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert set(result.figures) == {"stream-near", "stream-equal"}

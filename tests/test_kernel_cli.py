"""`bentpipe kernel` without a kernel: errors name what was typed."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.kernel import controllers

needs_programs = pytest.mark.skipif("hybla" not in controllers.available(), reason="no programs (make kernel)")


@needs_programs
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("load hibla", "no program for 'hibla'; did you mean 'hybla'?; expected bbr2, "),
        ("load cubic", "no program for 'cubic'; did you mean 'cubic-leo'?; expected bbr2, "),
        ("set hibla rtt0_ms=1", "no program for 'hibla'; did you mean 'hybla'?"),
        ("status hibla", "no program for 'hibla'; did you mean 'hybla'?"),
        ("load hybla+bbr3", "'hybla+bbr3'; expected one controller"),
        ("load hybla:ecn=on", "'hybla:ecn=on'; expected one controller"),
        ("load hybla:ecn=x", "hybla: ecn is 'x'; expected on, off"),
        ("set hybla rtt0_ms", "hybla: 'rtt0_ms' is no tunable; expected tunable=value"),
        ("set hybla rtt0=5", "controller `hybla` has no option `rtt0`; it takes: rtt0_ms, "),
        ("load hybla:rtt0_ms=0", "controller `hybla`: option `rtt0_ms` is 0; expected a number from 1"),
    ],
)
def test_an_error_names_what_was_typed(line, says):
    result = CliRunner().invoke(app, ["kernel", *line.split()])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {says}"), result.stderr
    assert result.stderr.count("\n") == 1
    assert "--" not in result.stderr

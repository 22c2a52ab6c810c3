"""The catalogues and the sky as Python names."""

import json

import bentpipe as bp


def test_catalogues_are_those_of_the_command_line():
    from typer.testing import CliRunner

    from bentpipe.cli.main import app

    names = {"constellations": "constellations", "presets": "presets", "policies": "policies", "loss": "losses"}
    for command, name in names.items():
        output = CliRunner().invoke(app, [command, "--json"])
        assert json.loads(output.stdout) == getattr(bp, name)()


def test_sky_and_route_take_times_as_text():
    above = bp.sky((51.5, 0.0), "2026-05-10T09:00Z", constellation="starlink-gen1")
    assert above["elevation_deg"].is_sorted(descending=True)
    assert bp.sky("london", "2026-05-10T09:00Z", min_elevation=90).schema == above.schema
    paths = bp.route("london", "new-york", start="2026-05-10T09:00Z", duration="2s")
    assert len(paths.to_rows()) == 2

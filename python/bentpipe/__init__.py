"""Simulate, emulate and measure transports and applications over low-earth-orbit satellite Internet.

Input: a Profile (a path over time). Output: a Run (tables and a record). Everything that the command line does:

- `Profile`, `Network`: one path, several paths. Make, read, write, convert, draw them; run a program behind one.
- `Experiment`, `Flow`: what runs over them, simulated or on this machine's kernel; `RunSet`, `Run`, `Comparison`: the
  results, with summaries, figures and reports.
- `read`, `Measurement`: measurements and their analyses. `probe`, `Reflector`, `Dish`, `serving`: measuring.
- `sky`, `route`; `controllers`, `sites`, `constellations`, `presets`, `policies`, `losses`: what there is, by name.
- `check_kernel`, `run_demo`, `list_studies`, `run_study`, `validate`: whole workflows.
- `load_page`, `page_objects`: web pages over paths. `video_call`: a video call. `race_videos`: adaptive video.
- `Predictor`, `predictors`, `score_predictors`, `handover_model`: predictors of latency and throughput.
- `AwarenessClient`, `serve_awareness`: what a terminal sees and what comes next, for other programs.
- `dry_run_trigger`, `trigger_signals`: when would a condition on live signals have fired?
- `serve_testbed`, `TestbedClient`, `join_testbed`, `serve_node`: experiments on nodes behind terminals;
  `serve_laptop_testbed`: all of it on this machine; `unit_text`: units of systemd.
- `replay`: the calls of a controller in a Run, without a network.
- `UserError`: errors that the caller can fix, in one line. `ExperimentInterruptedError`: Ctrl-C, with finished Runs.

Names are loaded on first use, so importing bentpipe is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe import lazy
from bentpipe.errors import BentpipeError, UserError

if TYPE_CHECKING:
    from bentpipe._native import __version__
    from bentpipe.aware.client import AwarenessClient
    from bentpipe.aware.running import serve_awareness
    from bentpipe.experiments.hook_traces import replay
    from bentpipe.experiments.recovery import recovery_schemes
    from bentpipe.kernel.controllers import (
        controller_sockets,
        load_controller,
        loaded_controllers,
        set_controller_options,
        unload_controller,
    )
    from bentpipe.measurements.probing.reflector import Reflector
    from bentpipe.objects.call import video_call
    from bentpipe.objects.catalogue import constellations, controllers, losses, policies, presets, sites
    from bentpipe.objects.comparison import Comparison
    from bentpipe.objects.dish import Dish
    from bentpipe.objects.experiment import Experiment
    from bentpipe.objects.flow import Flow
    from bentpipe.objects.machine import check_kernel, keep_clock
    from bentpipe.objects.measurement import Measurement, read
    from bentpipe.objects.network import Network
    from bentpipe.objects.prediction import Predictor, handover_model, predictors, score_predictors
    from bentpipe.objects.probing import finish_probe, probe
    from bentpipe.objects.profile import Profile
    from bentpipe.objects.run import Run
    from bentpipe.objects.run_set import ExperimentInterruptedError, RunSet
    from bentpipe.objects.satellites import route, sky
    from bentpipe.objects.serving import serving
    from bentpipe.objects.video import race_videos
    from bentpipe.objects.web import load_page, page_objects
    from bentpipe.objects.workflows import list_studies, run_demo, run_study, validate
    from bentpipe.testbed.agent.entering import join_testbed
    from bentpipe.testbed.agent.signals.dry_run import dry_run_trigger, trigger_signals
    from bentpipe.testbed.agent.starting import serve_node
    from bentpipe.testbed.client import TestbedClient
    from bentpipe.testbed.laptop.supervising import serve_laptop_testbed
    from bentpipe.testbed.orchestrator.starting import back_up_testbed, restore_testbed, serve_testbed
    from bentpipe.testbed.units import unit_text

#: Public name → the module it lives in.
_HOMES = {
    "AwarenessClient": "bentpipe.aware.client",
    "Comparison": "bentpipe.objects.comparison",
    "Dish": "bentpipe.objects.dish",
    "Experiment": "bentpipe.objects.experiment",
    "ExperimentInterruptedError": "bentpipe.objects.run_set",
    "Flow": "bentpipe.objects.flow",
    "Measurement": "bentpipe.objects.measurement",
    "Network": "bentpipe.objects.network",
    "Predictor": "bentpipe.objects.prediction",
    "Profile": "bentpipe.objects.profile",
    "Reflector": "bentpipe.measurements.probing.reflector",
    "Run": "bentpipe.objects.run",
    "RunSet": "bentpipe.objects.run_set",
    "TestbedClient": "bentpipe.testbed.client",
    "__version__": "bentpipe._native",
    "back_up_testbed": "bentpipe.testbed.orchestrator.starting",
    "check_kernel": "bentpipe.objects.machine",
    "controller_sockets": "bentpipe.kernel.controllers",
    "load_controller": "bentpipe.kernel.controllers",
    "loaded_controllers": "bentpipe.kernel.controllers",
    "set_controller_options": "bentpipe.kernel.controllers",
    "unload_controller": "bentpipe.kernel.controllers",
    "constellations": "bentpipe.objects.catalogue",
    "controllers": "bentpipe.objects.catalogue",
    "dry_run_trigger": "bentpipe.testbed.agent.signals.dry_run",
    "finish_probe": "bentpipe.objects.probing",
    "handover_model": "bentpipe.objects.prediction",
    "join_testbed": "bentpipe.testbed.agent.entering",
    "keep_clock": "bentpipe.objects.machine",
    "list_studies": "bentpipe.objects.workflows",
    "load_page": "bentpipe.objects.web",
    "losses": "bentpipe.objects.catalogue",
    "page_objects": "bentpipe.objects.web",
    "policies": "bentpipe.objects.catalogue",
    "predictors": "bentpipe.objects.prediction",
    "presets": "bentpipe.objects.catalogue",
    "recovery_schemes": "bentpipe.experiments.recovery",
    "probe": "bentpipe.objects.probing",
    "read": "bentpipe.objects.measurement",
    "replay": "bentpipe.experiments.hook_traces",
    "restore_testbed": "bentpipe.testbed.orchestrator.starting",
    "route": "bentpipe.objects.satellites",
    "run_demo": "bentpipe.objects.workflows",
    "run_study": "bentpipe.objects.workflows",
    "race_videos": "bentpipe.objects.video",
    "score_predictors": "bentpipe.objects.prediction",
    "serve_awareness": "bentpipe.aware.running",
    "serve_laptop_testbed": "bentpipe.testbed.laptop.supervising",
    "serve_node": "bentpipe.testbed.agent.starting",
    "serve_testbed": "bentpipe.testbed.orchestrator.starting",
    "serving": "bentpipe.objects.serving",
    "sites": "bentpipe.objects.catalogue",
    "sky": "bentpipe.objects.satellites",
    "trigger_signals": "bentpipe.testbed.agent.signals.dry_run",
    "unit_text": "bentpipe.testbed.units",
    "validate": "bentpipe.objects.workflows",
    "video_call": "bentpipe.objects.call",
}

__all__ = [
    "AwarenessClient",
    "BentpipeError",
    "Comparison",
    "Dish",
    "Experiment",
    "ExperimentInterruptedError",
    "Flow",
    "Measurement",
    "Network",
    "Predictor",
    "Profile",
    "Reflector",
    "Run",
    "RunSet",
    "TestbedClient",
    "UserError",
    "__version__",
    "back_up_testbed",
    "check_kernel",
    "constellations",
    "controller_sockets",
    "controllers",
    "dry_run_trigger",
    "finish_probe",
    "handover_model",
    "join_testbed",
    "keep_clock",
    "list_studies",
    "load_controller",
    "load_page",
    "loaded_controllers",
    "losses",
    "page_objects",
    "policies",
    "predictors",
    "presets",
    "probe",
    "race_videos",
    "read",
    "recovery_schemes",
    "replay",
    "restore_testbed",
    "route",
    "run_demo",
    "run_study",
    "score_predictors",
    "serve_awareness",
    "serve_laptop_testbed",
    "serve_node",
    "serve_testbed",
    "serving",
    "set_controller_options",
    "sites",
    "sky",
    "trigger_signals",
    "unit_text",
    "unload_controller",
    "validate",
    "video_call",
]


__getattr__ = lazy.names_of(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)

"""The dashboard's pages: records of services, given to templates."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from bentpipe.testbed.dashboard import calendar, charts, fleet, timeline
from bentpipe.testbed.dashboard.policy_words import policy_sentences
from bentpipe.testbed.dashboard.static_files import static_file
from bentpipe.testbed.orchestrator.routers.access import orchestrator_of
from bentpipe.testbed.orchestrator.routers.answers import json_answer
from bentpipe.testbed.orchestrator.routers.html import PageRoute, page
from bentpipe.testbed.orchestrator.routers.parameters import AtMs
from bentpipe.testbed.orchestrator.routers.runs import file_answer
from bentpipe.testbed.orchestrator.routers.sessions import Looks, caller_of
from bentpipe.testbed.orchestrator.routers.streams import EventStream
from bentpipe.testbed.orchestrator.security.roles import Caller
from bentpipe.testbed.orchestrator.services import listings, nodes, page_listings
from bentpipe.testbed.orchestrator.services.telemetry import Telemetry

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Reader = Annotated[Caller, Depends(Looks("read"))]
After = Annotated[str, Query(max_length=300)]

NODES_PER_PAGE = 200
ROWS_PER_PAGE = 50
FIGURES_S = 3.0
"""Longest time that a run's page waits for its figures [s]."""
AGAIN_S = 3
"""Time after which the page is loaded again if it had none yet [s]."""
RUNS_OF_EXPERIMENT = 300
HOUR_MS = 3_600_000
LOGS = (".log", ".txt")
"""Endings of files that a run's page shows."""


@router.get("/static/{name}", response_class=Response)
async def static(name: str) -> Response:
    """Return a static file; its address has its hash, so it never changes."""
    file = static_file(name)
    if file is None:
        raise HTTPException(404)
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(file.content, media_type=file.media_type, headers=headers)


@router.get("/live", response_class=Response)
async def live(request: Request, caller: Reader) -> Response:
    """Stream ``changed`` whenever something changed (server-sent events)."""
    wakeups = orchestrator_of(request).wakeups

    async def may_look() -> bool:
        return await caller_of(request) is not None

    def number() -> str | None:
        return None if wakeups.ended else str(wakeups.number)

    return EventStream(wakeups.of_all, number, "changed", caller=caller.user, may_look=may_look)


@router.get("/", response_class=Response)
async def show_fleet(request: Request, _: Reader, after: After = "") -> Response:
    """Show all nodes."""
    listed = await nodes.list_nodes(orchestrator_of(request), after, NODES_PER_PAGE)
    points = fleet.map_points(listed.items)
    return page(
        "fleet.html",
        request,
        title="Fleet",
        nodes=[(node, fleet.budget_bars(node)) for node in listed.items],
        points=points,
        map_data=fleet.map_data(points),
        summary=fleet.summary(listed.items),
        next=listed.next,
    )


@router.get("/nodes/{node}", response_class=Response)
async def show_node(node: str, request: Request, caller: Reader) -> Response:
    """Show a node; while somebody looks it sends once a second."""
    orchestrator = orchestrator_of(request)
    view = await nodes.show_node(orchestrator, node)
    telemetry: Telemetry = request.app.state.telemetry
    columns, rows = await telemetry.look(view.id)
    now_ms = orchestrator.clock()
    runs = await listings.list_runs(orchestrator, "", 25, node=view.id, to_at_ms=now_ms, newest=True)
    next_runs = await listings.list_runs(orchestrator, "", 5, node=view.id, from_at_ms=now_ms)
    events = await listings.node_events(orchestrator, view.name, 100)
    return page(
        "node.html",
        request,
        title=f"Node {view.name}",
        node=view,
        bars=fleet.budget_bars(view),
        samples=dict(zip(columns, rows[-1], strict=True)) if rows else {},
        policy=policy_sentences(view.report.policy),
        runs=runs.items,
        next_runs=next_runs.items,
        notes=[event for event in events if event.kind == "note"][:20],
        may_change=caller.may("nodes") and (caller.is_admin or view.owner == caller.name),
    )


@router.get("/calendar", response_class=Response)
async def show_calendar(
    request: Request,
    _: Reader,
    from_at_ms: AtMs | None = None,
    hours: Annotated[int, Query(ge=1, le=168)] = 3,
    run: Annotated[str, Query(max_length=32)] = "",
    after: After = "",
) -> Response:
    """Show the calendar, and why one run is where it is."""
    orchestrator = orchestrator_of(request)
    now_ms = orchestrator.clock()
    begin = now_ms - hours * HOUR_MS // 6 if from_at_ms is None else from_at_ms
    end = begin + hours * HOUR_MS
    some = await nodes.list_nodes(orchestrator, after, ROWS_PER_PAGE)
    bookings = await page_listings.bookings(orchestrator, [node.id for node in some.items], begin, end)
    drawing = calendar.draw(
        [node.name for node in some.items], bookings[: page_listings.MOST_BOOKINGS], begin, end, now_ms
    )
    chosen = await listings.show_run(orchestrator, run) if run else None
    return page(
        "calendar.html",
        request,
        title="Calendar",
        drawing=drawing,
        width=calendar.WIDTH,
        lane=calendar.LANE,
        left=calendar.LEFT,
        begin=begin,
        end=end,
        hours=hours,
        choices=calendar.HOURS,
        bookings=bookings,
        is_partial=len(bookings) > page_listings.MOST_BOOKINGS,
        chosen=chosen,
        placing=await page_listings.placing(orchestrator, run) if chosen is not None else None,
        after=after,
        next=some.next,
    )


@router.get("/experiments", response_class=Response)
async def show_experiments(request: Request, _: Reader, after: After = "") -> Response:
    """Show experiments, newest first."""
    listed = await listings.list_experiments(orchestrator_of(request), after, ROWS_PER_PAGE)
    return page("experiments.html", request, title="Experiments", experiments=listed.items, next=listed.next)


@router.get("/experiments/{experiment}", response_class=Response)
async def show_experiment(experiment: str, request: Request, caller: Reader) -> Response:
    """Show an experiment: its file, its runs, figures of its results."""
    orchestrator = orchestrator_of(request)
    view = await listings.show_experiment(orchestrator, experiment, caller.user)
    listed = await listings.list_runs(orchestrator, "", RUNS_OF_EXPERIMENT, experiment=view.id, newest=True)
    runs = listed.items[::-1]
    durations_s = await page_listings.durations_s(orchestrator, [run.id for run in runs])
    small = await orchestrator.figures.of_experiment(runs)
    by_id = {run.id: run for run in runs}
    return page(
        "experiment.html",
        request,
        title=f"Experiment {view.name}",
        experiment=view,
        grid=[(name, [run for run in runs if run.node == name]) for name in sorted({run.node for run in runs})],
        charts=[*charts.figure_charts(runs, small.runs), *charts.result_charts(runs, durations_s)],
        small=[
            (by_id[each.run], each, charts.spark_points(each)) for each in reversed(small.runs) if each.run in by_id
        ],
        results=[run for run in runs if run.location is not None][:-21:-1],
        is_partial=listed.next is not None,
        may_change=view.state == "active"
        and caller.may("experiments")
        and (caller.is_admin or view.owner == caller.name),
    )


@router.get("/runs/{run}", response_class=Response)
async def show_run(run: str, request: Request, _: Reader) -> Response:
    """Show a run: both ends' events, traffic, logs and files."""
    orchestrator = orchestrator_of(request)
    view = await listings.show_run(orchestrator, run)
    logs = []
    for end in view.ends:
        for path in [file for file in end.files if file.endswith(LOGS)][:4]:
            folder = view.location if end.end == "client" else f"{view.location}/server"
            text = None if view.location is None else await page_listings.text_of(orchestrator, str(folder), path)
            logs.append((end.end, path, text))
    figures = await orchestrator.figures.of_run(view, FIGURES_S)
    shown = page(
        "run.html",
        request,
        title=f"Run of {view.experiment_name}",
        run=view,
        moments=timeline.moments(view),
        ran_s=timeline.ran_s(view),
        logs=logs,
        figures=figures,
        placing=await page_listings.placing(orchestrator, run),
        telemetry=timeline.telemetry_words(view),
    )
    if figures is None:
        shown.headers["Refresh"] = str(AGAIN_S)
    return shown


@router.get("/runs/{run}/figures", response_class=Response)
async def run_figures(run: str, request: Request, _: Reader) -> Response:
    """Return the figures of a run's results for its page, as ``/v1/runs/{run}/figures``."""
    orchestrator = orchestrator_of(request)
    figures = await orchestrator.figures.of_run(await listings.show_run(orchestrator, run))
    assert figures is not None
    return json_answer(figures)


@router.get("/runs/{run}/files/{end}/{path:path}", response_class=Response)
async def result_file(run: str, end: str, path: str, request: Request, _: Reader) -> Response:
    """Return a file of a result as a download."""
    return await file_answer(orchestrator_of(request), run, end, path)


@router.get("/triggers", response_class=Response)
async def show_triggers(request: Request, _: Reader, after: After = "") -> Response:
    """Show triggers with their last firings."""
    details, following = await page_listings.triggers(orchestrator_of(request), after, ROWS_PER_PAGE)
    return page("triggers.html", request, title="Triggers", triggers=details, next=following)

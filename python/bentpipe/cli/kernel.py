"""`bentpipe kernel`: check this machine's kernel, and load controllers into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bentpipe.execution.emulation.check import KernelReport
    from bentpipe.kernel.controllers import Loaded

app = typer.Typer(help="Check this machine's kernel for emulation, and load controllers into it.", no_args_is_help=True)


@app.callback()
def kernel() -> None:
    """Check this machine's kernel for emulation, and load controllers into it."""


@app.command()
def check(as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False) -> None:
    """Try an emulation; print each requirement, whether it is met, and the effect if not.

    Exit code 2: this machine cannot emulate.

    Example:
        bentpipe kernel check
    """
    from bentpipe.cli.console import print_json, say, table
    from bentpipe.execution.emulation.check import check_kernel
    from bentpipe.execution.kernel import trial_path

    report = check_kernel(trial_path())
    if as_json:
        print_json({"usable": report.usable, "checks": [item.to_dict() for item in report.checks]})
    else:
        rows = [[item.name, "ok" if item.ok else "no", item.found, item.means] for item in report.checks]
        table("", ["requirement", "", "found", "effect"], rows)
        say(_verdict(report))
    raise typer.Exit(0 if report.usable else 2)


def _verdict(report: KernelReport) -> str:
    if not report.usable:
        return "This machine cannot emulate: see the first `no`."
    missing = [item.name for item in report.checks if not item.ok]
    if "lateness" in missing:
        return (
            "This machine can emulate, but it was late just now: end other work on it, or expect Runs that are marked "
            "not valid."
        )
    if missing:
        return f"This machine can emulate; missing: {', '.join(missing)} (effects above)."
    return "This machine can emulate; nothing is missing."


@app.command()
def load(scheme: Annotated[str, typer.Argument(help="Controller, with options: `bbr2:loss_thresh=0.08`.")]) -> None:
    """Load a controller into this machine's kernel; it stays until `unload`.

    Example:
        sudo bentpipe kernel load hybla
    """
    from bentpipe.cli.console import say
    from bentpipe.kernel import controllers

    name, options = _controller(scheme)
    registration = controllers.load_controller(name, options)
    say(f"{registration.name} is loaded. Use it in one program (TCP_CONGESTION), or for all new connections:")
    say(f"  sysctl -w net.ipv4.tcp_congestion_control={controllers.kernel_name(registration.name)}")


def _controller(scheme: str) -> tuple[str, dict[str, float | str]]:
    """Return the name and the options of one controller. Raises `UserError`, which names what was typed."""
    from bentpipe.errors import UserError, shown
    from bentpipe.experiments.schemes import ecn_of, flows_of, parse_scheme
    from bentpipe.kernel.controllers import check_name

    one = UserError(shown(scheme), expected="one controller with its own options (ECN is a sysctl: tcp_ecn)")
    if "+" in scheme:
        raise one
    check_name(scheme.partition(":")[0].lower())
    try:
        normal = parse_scheme(scheme)
    except UserError as error:
        where = error.where.removeprefix("schemes").removeprefix(": ")
        raise UserError(error.found, where=where, expected=error.expected, hint=error.hint) from None
    if ecn_of(normal) != ["off"]:
        raise one
    return flows_of(normal)[0]


@app.command()
def unload(name: Annotated[str, typer.Argument(help="Controller.")]) -> None:
    """Unload a controller; connections that use it keep it until they close.

    Example:
        sudo bentpipe kernel unload hybla
    """
    from bentpipe.cli.console import say
    from bentpipe.kernel import controllers

    left = controllers.unload_controller(name)
    users = [
        (left.connections, "connections until they close"),
        (left.other_references, "other references (kernel list)"),
    ]
    kept = " and ".join(f"{count} {who}" for count, who in users if count > 0)
    say(f"{name} is unloaded" + (f"; kept by {kept}" if kept else ""))


@app.command("list")
def list_controllers(as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False) -> None:
    """List the controllers that can be loaded, and those that are: who uses them, and tunables that are not defaults.

    --json has all tunables.

    Example:
        sudo bentpipe kernel list
    """
    from bentpipe.cli.console import print_json, say, table
    from bentpipe.kernel import controllers

    registrations = controllers.loaded_controllers()
    if as_json:
        print_json({"available": controllers.available(), "loaded": [each.to_dict() for each in registrations]})
        return
    rows = [
        [each.name, each.state, str(each.connections), str(each.other_references), _changed(each)]
        for each in registrations
    ]
    rows += [
        [name, "not loaded", "", "", ""]
        for name in controllers.available()
        if name not in {each.name for each in registrations}
    ]
    table("", ["controller", "in the kernel", "connections", "other references", "tunables"], rows)
    if any(each.state == controllers.STATES[2] and each.other_references for each in registrations):
        say(
            "Other references: sockets that listen or have sent nothing, and defaults of network namespaces. They may "
            "stay for some minutes after their end; what then stays without any of these is leaked by the kernel."
        )


def _changed(registration: Loaded) -> str:
    from bentpipe.kernel.tunables import changed

    if registration.tunables is None:
        return "not known"
    values = changed(registration.name, registration.tunables)
    return ", ".join(f"{name}={_shown(value)}" for name, value in values.items()) or "defaults"


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.12g}"


@app.command("set")
def set_options(
    name: Annotated[str, typer.Argument(help="Controller.")],
    options: Annotated[list[str], typer.Argument(help="Options, as `loss_thresh=0.08`; the others: their defaults.")],
) -> None:
    """Set the options of a loaded controller, also for connections that use it.

    Example:
        sudo bentpipe kernel set bbr2 loss_thresh=0.08
    """
    from bentpipe.cli.console import say
    from bentpipe.kernel import controllers

    controller, typed = _controller(f"{name}:{','.join(options)}")
    controllers.set_controller_options(controller, typed)
    say(f"{name}: {', '.join(options)}")


@app.command()
def status(
    name: Annotated[str | None, typer.Argument(help="Controller; default: all.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it anew each second until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object, one per line with --watch.")] = False,
) -> None:
    """Show the host's handover clock and the connections of loaded controllers: window, rate, RTT, losses, phase.

    Example:
        sudo bentpipe kernel status --watch
    """
    from bentpipe.cli.kernel_status import Status, watch_status
    from bentpipe.kernel import controllers
    from bentpipe.kernel.clock.daemon import clock_program
    from bentpipe.kernel.clock.record import shown_clocks

    if name is not None:
        controllers.check_name(name)

    def read() -> Status:
        clocks = shown_clocks(name)
        has_all = all(clock["period_s"] is not None for clock in clocks.values())  # a search of all processes is saved
        return Status(clocks, list(controllers.controller_sockets(name)), None if has_all else clock_program())

    if watch:
        watch_status(read, as_json=as_json)
    else:
        read().show(as_json=as_json)

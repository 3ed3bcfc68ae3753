"""How does a command end? Its result or one error is printed once, and the status says which."""

from __future__ import annotations

import errno
import sys
from typing import NoReturn

import click

from kboot.cli.garbage import while_ending
from kboot.errors import ActionFailed, ExitStatus, KbootError, UsageError
from kboot.host.early import end_interrupted, interrupt_on_signals, leave_on_signals
from kboot.host.os_errors import explain_os_error
from kboot.host.terminal import (
    open_missing_streams,
    own_environ,
    silence_stdout,
    wants_colour,
    working_folder_is_gone,
)

_COMPLETE = "_KBOOT_COMPLETE"  # set by the shell code of `_KBOOT_COMPLETE=bash_source kboot`

_NOT_A_BUG = frozenset({errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.EROFS})
"""What a machine may answer at any step, whether or not that step thought of it."""


_NOWHERE = ActionFailed(
    "working-folder-gone",
    "the folder that kboot was started in is not there any more, and what was asked is relative to it",
    hint="`cd` to another one, or give whole paths",
)


class Finished(Exception):
    """Ends a command with a status other than 0 after its result was printed."""

    def __init__(self, status: ExitStatus) -> None:
        super().__init__(int(status))
        self.status = status


def run(command: click.Command) -> NoReturn:
    """Run the command line of this process and exit."""
    open_missing_streams()
    try:
        status = int(_status_of(command, tuple(sys.argv[1:])))
        leave_on_signals(status)
    except KeyboardInterrupt:  # while an error was being printed
        status = int(ExitStatus.INTERRUPTED)
    if status == ExitStatus.INTERRUPTED:
        end_interrupted()
    while_ending()
    sys.exit(status)


def _status_of(command: click.Command, argv: tuple[str, ...]) -> int:
    try:
        interrupt_on_signals()
        if instruction := own_environ().get(_COMPLETE):
            from click.shell_completion import shell_complete

            return shell_complete(command, {}, "kboot", _COMPLETE, instruction)
        # Not command.main(): it prints errors itself, and ends a broken pipe with 1, which is a bug's status here.
        with command.make_context("kboot", list(argv)) as ctx:
            command.invoke(ctx)
        sys.stdout.flush()
    except Finished as end:
        return end.status
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as exc:
        return _print_usage_error(exc, argv, command)
    except KbootError as exc:
        return _print_error(exc, argv)
    except (KeyboardInterrupt, click.Abort, EOFError):
        click.echo("kboot: interrupted", err=True)
        return ExitStatus.INTERRUPTED
    except BrokenPipeError:
        silence_stdout()
        return ExitStatus.DONE
    except OSError as exc:
        if exc.errno == errno.ENOENT and exc.filename is None and working_folder_is_gone():
            return _print_error(_NOWHERE, argv)
        if exc.errno not in _NOT_A_BUG:
            return _print_bug(exc, argv)
        if exc.filename is None:
            silence_stdout()  # what is left in its buffer would fail again while the interpreter ends
        return _print_error(explain_os_error(exc, "go on", exc.filename or "standard output"), argv)
    except Exception as exc:  # noqa: BLE001  (the edge: whatever is left is a bug, and is said to be one)
        return _print_bug(exc, argv)
    return ExitStatus.DONE


def _print_error(error: KbootError, argv: tuple[str, ...]) -> int:
    from kboot.report.document import dumps, error_document
    from kboot.report.render_text import error_text, no_paint

    if _asks_json(argv):
        click.echo(dumps(error_document(error)))
    else:
        from kboot.cli.options import for_reader, paint

        colour = paint if wants_colour(sys.stderr, own_environ()) else no_paint
        with for_reader(sys.stderr):
            click.echo(_without_secrets(error_text(error, paint=colour)), err=True)
    return int(error.status)


def _print_usage_error(exc: click.ClickException, argv: tuple[str, ...], command: click.Command) -> int:
    if isinstance(exc, click.exceptions.NoArgsIsHelpError):
        exc.show()
        return ExitStatus.USAGE
    ctx = exc.ctx if isinstance(exc, click.UsageError) else None
    path = ctx.command_path if ctx else _typed(command, argv)  # click's parser of options gives no context
    return _print_error(UsageError("usage", exc.format_message(), hint=f"`{path} --help`"), argv)


def _typed(command: click.Command, argv: tuple[str, ...]) -> str:
    """Return the command that the first words mean: "kboot cache gc"."""
    words = ["kboot"]
    for word in argv:
        found = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
        if found is None:
            break
        words.append(word)
        command = found
    return " ".join(words)


def _print_bug(exc: Exception, argv: tuple[str, ...]) -> int:
    import traceback

    text = _without_secrets("".join(traceback.format_exception(exc)))
    if "-v" in argv or "--verbose" in argv:
        click.echo(text, err=True, nl=False)
        where = "the traceback is above"
    else:
        where = _keep_traceback(text)
    bug = _Bug("bug", f"this is a bug in kboot ({type(exc).__name__}); {where}")
    if _asks_json(argv):
        return _print_error(bug, argv)
    click.echo(f"error: {bug.message}", err=True)
    return ExitStatus.BUG


class _Bug(KbootError):
    status = ExitStatus.BUG


def _keep_traceback(text: str) -> str:
    """Write the traceback down and return where; a disk that does not take it gets it on stderr instead."""
    from kboot.host.clock import unix_s
    from kboot.host.files import atomic_write, make_dirs
    from kboot.host.paths import find_paths
    from kboot.host.real import RealHost

    host = RealHost()
    try:
        folder = find_paths(None, host.environ(), host.uid()).runtime
        make_dirs(folder)
        path = folder / f"traceback-{unix_s():.0f}.txt"
        atomic_write(path, text.encode(errors="replace"), 0o600)
    except KbootError:
        click.echo(text, err=True, nl=False)
        return "the traceback is above"
    return f"the traceback is in {path}"


def _without_secrets(text: str) -> str:
    from kboot.cli.logs import masked

    return masked(text)


def _asks_json(argv: tuple[str, ...]) -> bool:
    """Return whether --json stands before `--`: also known when the rest of the line cannot be parsed."""
    own = argv[: argv.index("--")] if "--" in argv else argv
    return "--json" in own

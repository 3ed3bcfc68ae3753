import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from kboot.errors import ActionFailed
from kboot.host.http import port_in_use
from kboot.host.listeners import listeners
from kboot.host.myself import handle_stop_signals, missing_name, raise_nofile, set_memory_policy
from kboot.host.processes import (
    OUTPUT_LIMIT_BYTES,
    Child,
    run,
    spawn,
    stop_tree,
    wait_for_end,
)

PYTHON = sys.executable


def program(text: str) -> list[str]:
    """Return the command line of a small Python program."""
    return [PYTHON, "-c", textwrap.dedent(text)]


def until(true: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait for something that will come."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


def words_of(process: psutil.Process) -> list[str]:
    """Return the command line of a process; one that has ended has none."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # a zombie too
        return []


def gone(pid: int) -> bool:
    """Return whether a process has ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def pids_in(log: Path, count: int) -> list[int]:
    """Wait for a program to say its pids."""
    until(lambda: log.exists() and len(log.read_text().split()) >= count)
    return [int(word) for word in log.read_text().split()]


@pytest.fixture
def children() -> Iterator[list[Child]]:
    """Give a list whose programs are ended after the test."""
    started: list[Child] = []
    yield started
    for child in started:
        stop_tree(child, 0.0)


class TestRun:
    def test_gives_status_and_both_outputs(self) -> None:
        """A program's exit status, stdout and stderr come back apart."""
        done = run(program("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"), 30)

        assert (7, b"out\n", b"err\n", False) == (done.status, done.stdout, done.stderr, done.timed_out)

    def test_input_is_given_and_stdin_is_empty_without_it(self) -> None:
        """A program reads what it is given; without input it meets the end of file at once, not the terminal."""
        echo = program("import sys; print(len(sys.stdin.read()))")

        assert b"5\n" == run(echo, 30, input=b"hello").stdout
        assert b"0\n" == run(echo, 30).stdout

    def test_a_program_that_hangs_is_killed_with_what_it_started(self, tmp_path: Path) -> None:
        """At the deadline the whole process group dies, and what was said until then is kept."""
        note = tmp_path / "pid"
        hang = program(f"""
            import subprocess, sys, time
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            open({str(note)!r}, "w").write(str(child.pid))
            print("before", flush=True)
            time.sleep(600)
        """)

        done = run(hang, 3)

        assert (True, -signal.SIGKILL, b"before\n") == (done.timed_out, done.status, done.stdout)
        until(lambda: gone(int(note.read_text())))

    def test_output_is_bounded(self) -> None:
        """A program that floods its output is read to the end, and only the first MiB is kept."""
        done = run(program(f"import sys; sys.stdout.write('x' * {3 * OUTPUT_LIMIT_BYTES})"), 30)

        assert (0, OUTPUT_LIMIT_BYTES) == (done.status, len(done.stdout))

    def test_a_grandchild_that_keeps_the_pipe_does_not_hold_us(self) -> None:
        """The program's own end is the end, although a daemon it left has its stdout open."""
        done = run(
            program("""
                import subprocess, sys
                subprocess.Popen([sys.executable, "-c", "import time; time.sleep(5)"])
                print("done", flush=True)
            """),
            60,
        )

        assert (0, b"done\n", False) == (done.status, done.stdout, done.timed_out)

    def test_a_missing_program_is_an_os_error(self) -> None:
        """Who asks for facts turns it into a gap."""
        with pytest.raises(FileNotFoundError):
            run(["/nonexistent/program"], 1)


def become_in_child(call: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Let a process of its own become another program."""
    return subprocess.run(
        program(f"""
            import os, signal
            from kboot.errors import ActionFailed
            from kboot.host.myself import become
            {before}
            try:
                {call}
            except ActionFailed as exc:
                print("refused", exc.code, exc.message)
        """),
        capture_output=True,
        text=True,
        timeout=60,
    )


class TestBecome:
    def test_env_is_set_and_unset_on_top_of_the_inherited_one(self) -> None:
        """B141: what belongs to kboot's own service manager does not reach the engine; the rest is inherited."""
        done = become_in_child(
            "become(['/usr/bin/env'], {'OMP_NUM_THREADS': '3'}, (), ('NOTIFY_SOCKET', 'WATCHDOG_USEC', 'ABSENT'))",
            "os.environ.update(NOTIFY_SOCKET='@x', WATCHDOG_USEC='1000000', KEPT='yes')",
        )
        seen = set(done.stdout.splitlines())

        assert {"OMP_NUM_THREADS=3", "KEPT=yes"} <= seen
        assert not [line for line in seen if line.startswith(("NOTIFY_SOCKET", "WATCHDOG"))]

    def test_a_user_whom_nobody_knows_gets_a_name(self) -> None:
        """pytorch#140765, vllm#44548: torch asks for the name of uid 1000910000 and ends, though its cache is set."""
        assert {"USER": "uid1000910000"} == missing_name({"HOME": "/"}, 1000910000)
        assert {"USER": "uid1000910000"} == missing_name({"USER": ""}, 1000910000)
        assert {} == missing_name({"LOGNAME": "llm"}, 1000910000)
        assert {} == missing_name({}, 0)

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
    def test_the_name_reaches_the_engine(self) -> None:
        """Under a number that has no line in /etc/passwd."""
        done = become_in_child(
            "become(['/usr/bin/env'], {}, (), ('LOGNAME', 'USER', 'LNAME', 'USERNAME'))", "os.setuid(1000910000)"
        )

        assert "USER=uid1000910000" in done.stdout.splitlines()

    def test_programs_beside_it_are_found_last(self, tmp_path: Path) -> None:
        """An engine finds the tools of its own environment, after those of the machine (flashinfer#3386)."""
        (tmp_path / "engine").write_text("#!/bin/sh\nbuilds-kernels; cat /dev/null\n")
        for name in ("builds-kernels", "cat"):
            (tmp_path / name).write_text(f"#!/bin/sh\necho {name} of the environment\n")
            (tmp_path / name).chmod(0o755)
        (tmp_path / "engine").chmod(0o755)

        done = become_in_child(f"become(['{tmp_path}/engine'], {{'PATH': '/usr/bin:/bin'}})")

        assert "builds-kernels of the environment\n" == done.stdout

    def test_the_program_runs_on_the_cpus_given(self) -> None:
        """The affinity is that of the plan, in the program and not only in kboot."""
        cpu = min(os.sched_getaffinity(0))

        done = become_in_child(f"become(['/bin/cat', '/proc/self/status'], {{}}, ({cpu},))")

        assert f"Cpus_allowed_list:\t{cpu}" in done.stdout.splitlines()

    def test_a_cpu_that_does_not_exist_is_refused(self) -> None:
        """B079: CPUs outside the cpuset end in one clear error, not in an engine that runs anywhere."""
        done = become_in_child("become(['/bin/true'], {}, (5000,))")

        assert done.stdout.startswith("refused affinity-refused cannot run on CPUs 5000")

    def test_cpus_that_are_only_partly_there_are_refused(self) -> None:
        """B085: the kernel cuts such a mask in silence; the read-back notices."""
        cpu = min(os.sched_getaffinity(0))

        done = become_in_child(f"become(['/bin/true'], {{}}, ({cpu}, 5000))")

        assert done.stdout.startswith("refused affinity-refused asked for CPUs ")

    def test_no_signal_stays_ignored_or_blocked(self) -> None:
        """Python ignores SIGPIPE, a shell SIGQUIT, a parent may have blocked SIGTERM; the engine starts with none."""
        done = become_in_child(
            "become(['/bin/cat', '/proc/self/status'], {})",
            "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); "
            "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGQUIT, signal.SIG_IGN)",
        )
        status = dict(line.split(":\t", 1) for line in done.stdout.splitlines() if ":\t" in line)

        libc_own = 0b11 << 31  # signals 32 and 33 are the C library's; no program can set them
        assert (0, 0) == (int(status["SigBlk"], 16) & ~libc_own, int(status["SigIgn"], 16) & ~libc_own)

    def test_a_missing_engine_is_one_clear_error(self) -> None:
        """The path that is missing is named."""
        done = become_in_child("become(['/opt/none/bin/python'], {})")

        assert done.stdout.startswith("refused path-missing cannot start the engine")


class TestSpawn:
    def test_output_is_appended_to_the_log(self, tmp_path: Path, children: list[Child]) -> None:
        """Both streams of two runs stand in one log, oldest first; the last status is kept."""
        log = tmp_path / "engine.log"
        for word in ("one", "two"):
            child = spawn(program(f"import sys; print('{word}'); sys.exit(3)"), {}, log)
            children.append(child)
            assert 3 == child.wait(60)

        assert "one\ntwo\n" == log.read_text()
        assert 3 == child.status()

    def test_it_leads_its_own_session(self, tmp_path: Path, children: list[Child]) -> None:
        """Ctrl-C on the terminal reaches kboot alone, which then stops the engine in order."""
        child = spawn(program("import time; time.sleep(600)"), {}, tmp_path / "log")
        children.append(child)

        assert child.pid == os.getsid(child.pid) == os.getpgid(child.pid)

    def test_it_is_told_when_the_parent_is_killed(self, tmp_path: Path) -> None:
        """No engine survives a kboot that was killed with SIGKILL, even when a thread that has ended started it."""
        log = tmp_path / "log"
        parent = subprocess.Popen(
            program(f"""
                import os, sys, threading, time
                from pathlib import Path
                from kboot.host.processes import spawn
                engine = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"]
                thread = threading.Thread(target=lambda: spawn(engine, dict(os.environ), Path({str(log)!r})))
                thread.start()
                thread.join()
                time.sleep(600)
            """)
        )
        (engine,) = pids_in(log, 1)
        assert not gone(engine)

        parent.kill()
        parent.wait(30)

        until(lambda: gone(engine))

    @pytest.mark.parametrize("obeys", [True, False])
    def test_nothing_behind_a_wrapper_outlives_a_killed_parent(self, tmp_path: Path, obeys: bool) -> None:
        """SIGKILL of kboot ends what a shell has started too, in another session and deaf to SIGTERM as well."""
        log = tmp_path / "log"
        deaf = "" if obeys else "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
        worker = tmp_path / "worker.py"
        worker.write_text(f"import os, signal, time\n{deaf}\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
        wrapper = ["/bin/sh", "-c", f"setsid {PYTHON} {worker} & {PYTHON} {worker}; true"]
        parent = subprocess.Popen(
            program(f"""
                import time
                from pathlib import Path
                from kboot.host.processes import spawn
                child = spawn({wrapper!r}, {{}}, Path({str(log)!r}), stop_timeout_s={30.0 if obeys else 0.5})
                time.sleep(600)
            """)
        )
        workers = pids_in(log, 2)
        assert [False, False] == [gone(pid) for pid in workers]

        parent.kill()
        parent.wait(30)

        until(lambda: all(gone(pid) for pid in workers))

    def test_a_keeper_ends_with_the_program_it_keeps(self, tmp_path: Path) -> None:
        """After stop_tree neither the program nor its keeper is left, and nothing it did not start was ended."""
        bystander = subprocess.Popen(program("import time; time.sleep(600)"), start_new_session=True)
        child = spawn(program("import time; time.sleep(600)"), {}, tmp_path / "log")
        program_of = psutil.Process(child.pid)
        until(lambda: "KBOOT_ENGINE_MARK" in program_of.environ())  # empty while the kernel sets the program up
        mark = program_of.environ()["KBOOT_ENGINE_MARK"]
        stop_tree(child, 30)

        until(lambda: not [p for p in psutil.Process().children() if mark in words_of(p)])
        assert bystander.poll() is None
        bystander.kill()
        bystander.wait(30)

    def test_a_program_that_cannot_start_is_one_clear_error(self, tmp_path: Path) -> None:
        """The path is named before anything runs."""
        with pytest.raises(ActionFailed, match="cannot start the program") as caught:
            spawn(["/nonexistent/engine"], {}, tmp_path / "log")

        assert ("/nonexistent/engine",) == caught.value.where

    def test_a_log_that_cannot_be_written_is_one_clear_error(self, tmp_path: Path) -> None:
        """Nothing is started without a log."""
        with pytest.raises(ActionFailed, match="cannot open the log"):
            spawn([PYTHON, "-c", ""], {}, tmp_path / "absent" / "log")


class TestStopTree:
    def test_a_program_that_obeys_is_only_asked(self, tmp_path: Path, children: list[Child]) -> None:
        """SIGTERM is enough for a program with the default handler, children included."""
        log = tmp_path / "log"
        child = spawn(
            program("""
                import os, subprocess, sys, time
                worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
                print(os.getpid(), worker.pid, flush=True)
                time.sleep(600)
            """),
            {},
            log,
        )
        children.append(child)
        pids = pids_in(log, 2)

        assert stop_tree(child, 30) is True
        assert [True, True] == [gone(pid) for pid in pids]
        assert -signal.SIGTERM == child.status()

    def test_one_that_ignores_sigterm_is_killed(self, tmp_path: Path, children: list[Child]) -> None:
        """After the deadline nothing of it is left."""
        log = tmp_path / "log"
        child = spawn(
            program("""
                import os, signal, time
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                print(os.getpid(), flush=True)
                time.sleep(600)
            """),
            {},
            log,
        )
        children.append(child)
        (pid,) = pids_in(log, 1)

        assert stop_tree(child, 0.3) is False
        assert gone(pid)

    def test_descendants_that_left_the_group_are_ended_too(self, tmp_path: Path, children: list[Child]) -> None:
        """B139: workers in another session, and workers whose parent is dead, do not keep the GPUs."""
        log = tmp_path / "log"
        child = spawn(
            program("""
                import os, subprocess, sys, time
                sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
                far = subprocess.Popen(sleep, start_new_session=True)
                orphan = subprocess.run(
                    [sys.executable, "-c", "import os, subprocess, sys; os.setpgid(0, 0);"
                     "print(subprocess.Popen(sys.argv[1:], stdout=-3, stderr=-3).pid)", *sleep],
                    capture_output=True, text=True).stdout.strip()
                print(os.getpid(), far.pid, orphan, flush=True)
                time.sleep(600)
            """),
            {},
            log,
        )
        children.append(child)
        pids = pids_in(log, 3)
        assert [False] * 3 == [gone(pid) for pid in pids]

        stop_tree(child, 30)

        assert [True] * 3 == [gone(pid) for pid in pids]


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    def test_each_sets_the_event(self, number: signal.Signals) -> None:
        """SIGTERM, SIGINT and SIGHUP all mean stop, SIGINT also when the shell started kboot with it ignored."""
        done = subprocess.run(
            program(f"""
                import os, threading
                from kboot.host.myself import handle_stop_signals
                event = threading.Event()
                handle_stop_signals(event)
                os.kill(os.getpid(), {int(number)})
                print(event.wait(30))
            """),
            capture_output=True,
            text=True,
            timeout=60,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )

        assert "True\n" == done.stdout

    def test_nohup_is_respected(self) -> None:
        """A SIGHUP that was ignored at the start does not stop kboot."""
        done = subprocess.run(
            program("""
                import os, signal, threading
                from kboot.host.myself import handle_stop_signals
                event = threading.Event()
                handle_stop_signals(event)
                os.kill(os.getpid(), signal.SIGHUP)
                print(event.wait(0.2))
            """),
            capture_output=True,
            text=True,
            timeout=60,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        )

        assert "False\n" == done.stdout

    def test_handlers_are_for_the_main_thread(self) -> None:
        """Python allows handlers in the main thread only, and says so."""
        failed: list[BaseException] = []

        def try_it() -> None:
            try:
                handle_stop_signals(threading.Event())
            except ValueError as exc:
                failed.append(exc)

        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()

        assert 1 == len(failed)


class TestSelf:
    def test_the_soft_limit_of_open_files_becomes_the_hard_one(self) -> None:
        """B175: an engine with hundreds of shards and sockets does not stop at 1,024."""
        done = subprocess.run(
            program("""
                import resource
                hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
                resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
                from kboot.host.myself import raise_nofile
                print(raise_nofile() == (64, hard))
            """),
            capture_output=True,
            text=True,
            timeout=60,
        )

        assert "True\n" == done.stdout
        assert raise_nofile()[0] <= raise_nofile()[1]

    def test_a_node_that_does_not_exist_is_refused_with_a_reason(self) -> None:
        """B081, B083: a memory policy that the kernel refuses is said, and never claimed to be set."""
        assert "set_mempolicy of node 1000" in (set_memory_policy(1000) or "")

    def test_the_policy_is_read_back_from_the_kernel(self) -> None:
        """Where node 0 can be preferred, the process's own mappings say so; where not, a reason is given."""
        done = subprocess.run(
            program("""
                from kboot.host.myself import set_memory_policy
                why = set_memory_policy(0)
                policies = {line.split()[1] for line in open("/proc/self/numa_maps")} if why is None else set()
                print(why or sorted(policies))
            """),
            capture_output=True,
            text=True,
            timeout=60,
        )

        assert "prefer" in done.stdout or "set_mempolicy of node 0: " in done.stdout or "numa_maps" in done.stderr


class TestPort:
    def test_a_free_port_is_free(self) -> None:
        """Nothing listens there: no reason."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]

        assert port_in_use("127.0.0.1", port) is None

    @pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
    def test_the_holder_is_named(self, host: str) -> None:
        """The pid that listens is in the answer, whether the engine wants this address or all."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            why = port_in_use(host, server.getsockname()[1])

        assert why is not None
        assert f"held by pid {os.getpid()} " in why

    def test_the_one_to_stop_is_named_not_its_worker(self, tmp_path: Path, children: list[Child]) -> None:
        """A front end whose workers have its socket too is the holder."""
        log = tmp_path / "log"
        child = spawn(
            program("""
                import os, socket, subprocess, sys, time
                server = socket.create_server(("127.0.0.1", 0))
                sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
                worker = subprocess.Popen(sleep, pass_fds=[server.fileno()])
                print(os.getpid(), worker.pid, server.getsockname()[1], flush=True)
                time.sleep(600)
            """),
            {},
            log,
        )
        children.append(child)
        front, worker, port = pids_in(log, 3)

        assert (front, worker) == listeners(port)
        assert f"held by pid {front} " in (port_in_use("127.0.0.1", port) or "")

    def test_an_address_of_another_machine_is_a_reason(self) -> None:
        """192.0.2.1 (TEST-NET) is not ours to listen on."""
        assert "Cannot assign requested address" == port_in_use("192.0.2.1", 8000)


def test_the_end_of_a_process_is_seen_before_its_parent_asks() -> None:
    """One that nobody has waited for yet has ended; so has one that is gone; one that runs is left at the deadline."""
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    wait_for_end(child.pid, 0.01)
    assert psutil.Process(child.pid).is_running()
    assert child.stdin is not None
    child.stdin.close()
    wait_for_end(child.pid, 600)
    assert psutil.STATUS_ZOMBIE == psutil.Process(child.pid).status()

    assert 0 == child.wait(0)
    wait_for_end(child.pid, 600)

"""The clocks that are not Python's own."""

from __future__ import annotations

from kboot.host.clock import machine_cpus, machine_idle_s, unix_s


def test_the_machine_was_idle_for_no_longer_than_it_is_up_on_every_cpu() -> None:
    """Idle time is summed over all CPUs, so that it is divided by as many."""
    with open("/proc/uptime") as file:
        up_s = float(file.read().split()[0])

    assert 0 < machine_idle_s() <= (up_s + 60) * machine_cpus()
    assert unix_s() > up_s

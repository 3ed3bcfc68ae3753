"""What is said of GPUs that had faults, of their fabric, and of parts that cannot have them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from good_node import CHECKPOINT, HEALTH, NODE, PROFILE, gpus, node, sick

from kboot.checks import (
    fabric_manager,
    fabric_state,
    gpu_ecc,
    gpu_persistence,
    gpu_row_remap,
    gpu_sxid,
    gpu_xid_recent,
    nvlink_links,
    sys_failed_units,
)
from kboot.checks.every import CHECKS
from kboot.checks.types import Finding
from kboot.facts.asked_types import ManagerState
from kboot.facts.health_types import Fabric, FabricManager, GpuHealth, RemappedRows
from kboot.facts.kernel_events import kernel_events
from kboot.facts.types import NodeFacts
from kboot.facts.upkeep_types import Services

ZERO = "00000000-0000-0000-0000-000000000000"
OFF_FABRIC = Fabric("not-supported", "SUCCESS", 0, ZERO)


def logged(text: str, **changes: object) -> NodeFacts:
    """The good node with this kernel log."""
    return node(health={"kernel_events": kernel_events(text), **changes})


def test_a_gpu_off_the_bus_is_found_in_both_forms() -> None:
    """B164: three lines without an Xid, or Xid 79; each GPU is one event."""
    log = (
        "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\n"
        "               NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
        "               NVRM: fallen off the bus and is not responding to commands.\n"
        "[ 1843.439662] NVRM: The NVIDIA probe routine failed for 1 device(s).\n"
        "[ 1899.1] NVRM: Xid (PCI:0000:44:00): 79, pid=0, GPU has fallen off the bus.\n"
        "[ 1899.2] NVRM: GPU 0000:44:00.0: GPU has fallen off the bus.\n"
    )
    finding = gpu_xid_recent.run(logged(log), PROFILE, CHECKPOINT)

    assert ["0000:b3:00.0", "0000:44:00.0"] == [e.bus_id for e in kernel_events(log)]
    assert (
        "fail",
        "Xid 79 (GPU fell off the bus) on 0000:44:00.0, Xid 79 (GPU fell off the bus) on 0000:b3:00.0 since boot",
    ) == (finding.status, finding.seen)


def test_a_fabric_wide_fault_wants_a_reboot_even_where_the_driver_is_content() -> None:
    """B169: Xid 145 on two GPUs fails with "reboot the node", although no GPU asks for a recovery."""
    log = (
        "[ 500.0] NVRM: Xid (PCI:0000:01:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 03\n"
        "[ 500.0] NVRM: Xid (PCI:0000:02:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 05\n"
    )
    finding = gpu_xid_recent.run(logged(log), PROFILE, CHECKPOINT)

    assert ("fail", "reboot the node") == (finding.status, finding.hint)
    assert finding.seen.startswith("NVLink faults on 2 GPUs since boot: Xid 145 (NVLink RLW error) on 0000:01:00.0")


@pytest.mark.parametrize(
    ("code", "recovery", "wanted"),
    [
        (31, "none", "ok"),  # a program's page fault
        (48, "none", "warn"),  # reset since
        (48, "gpu-reset", "fail"),
        (48, None, "fail"),  # an older driver does not tell
        (64, "none", "fail"),  # no reset makes spare rows
        (63, None, "warn"),
        (39, None, "ok"),  # a copy engine of one program
        (135, None, "ok"),
        (46, None, "fail"),
        (136, None, "fail"),  # NVLink did not train
        (162, None, "ok"),  # power smoothing works again
        (163, None, "warn"),
        (167, None, "fail"),
        (172, "none", "warn"),  # the part of 48 that says where
        (999, None, "warn"),
    ],
)
def test_an_xid_is_judged_by_its_class(code: int, recovery: str | None, wanted: str) -> None:
    """A program's fault is none of the node's; a passing fault of a GPU that was reset since is history."""
    health = tuple(replace(each, recovery_action=recovery) for each in HEALTH)
    log = f"[ 9.0] NVRM: Xid (PCI:0000:01:00): {code}, pid=77, name=python3"

    assert wanted == gpu_xid_recent.run(logged(log, gpus=health), PROFILE, CHECKPOINT).status


def test_the_switch_says_which_of_its_faults_are_fatal() -> None:
    """An SXid is fatal unless its line says that it is not."""
    line = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): {}, Link 46 MC TS crumbstore MCTO"

    assert ("warn", "fail") == tuple(
        gpu_sxid.run(logged(line.format(words)), PROFILE, CHECKPOINT).status
        for words in ("28006, Non-fatal", "20034, Fatal")
    )


def test_a_kernel_log_that_may_not_be_read_is_unknown() -> None:
    """An unprivileged user sees no Xid, which is not the same as there being none."""
    blind = node(health={"kernel_events": None}, gpu={"nvml": "error"})

    assert "unknown" == gpu_xid_recent.run(blind, PROFILE, CHECKPOINT).status


def test_what_switches_say_of_links_that_start_is_no_finding() -> None:
    """NVIDIA/nvtrust#124: every link of a healthy HGX H100 at every start; the vendor's guide says to ignore it."""
    log = "".join(
        f"[ 38.1] nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, {rest}\n"
        for link in (43, 44)
        for rest in (f"Non-fatal, Link {link} Minion Link DLREQ interrupt", f"Severity 0 Engine instance {link} Sub-")
    )
    finding = gpu_sxid.run(logged(log), PROFILE, CHECKPOINT)

    assert ("ok", "no switch fault, 2 SXids to ignore") == (finding.status, finding.seen)


def test_a_link_fault_that_the_driver_got_over_is_a_warning() -> None:
    """leptonai/gpud#1174: a marginal lane says Nonfatal thousands of times an hour; Fatal is another matter."""
    line = "[ 500.0] NVRM: Xid (PCI:0018:01:00): 145, RLW_RXPIPE {} XC0 i0 Link 13 (0x0409a0c2 0x00000008)\n"
    mild = gpu_xid_recent.run(logged(line.format("Nonfatal") * 3), PROFILE, CHECKPOINT)
    grave = gpu_xid_recent.run(logged(line.format("Nonfatal") + line.format("Fatal")), PROFILE, CHECKPOINT)

    assert ("warn", True) == (mild.status, "`nvidia-smi nvlink -e` counts its errors" in mild.hint)
    assert ("fail", "Xid 145 (NVLink RLW error) on 0018:01:00.0 since boot") == (grave.status, grave.seen)


def test_a_status_of_the_fabric_counts_as_much_as_its_state() -> None:
    """B159: Completed with Insufficient Resources fails; Completed with Success and a clique passes."""
    q0 = sick(8, fabric=Fabric("completed", "INSUFFICIENT_RESOURCES", 0, ZERO))
    q1 = sick(8, fabric=Fabric("completed", "SUCCESS", 32766, "11111111-2222-3333-4444-555555555555"))

    assert ("fail", "ok") == (
        fabric_state.run(q0, PROFILE, CHECKPOINT).status,
        fabric_state.run(q1, PROFILE, CHECKPOINT).status,
    )


def test_links_that_are_up_do_not_make_a_fabric() -> None:
    """B161: all links up and a fabric that has not started is a failure of the fabric alone."""
    facts = sick(fabric=Fabric("not-started", "NOT_SUPPORTED", 0, ZERO))

    assert ("fail", "ok") == (
        fabric_state.run(facts, PROFILE, CHECKPOINT).status,
        nvlink_links.run(facts, PROFILE, CHECKPOINT).status,
    )


def test_gpus_of_two_cliques_are_no_fabric() -> None:
    """Each is registered, but not with the others."""
    assert "fail" == fabric_state.run(sick(fabric=Fabric("completed", "SUCCESS", 7, ZERO)), PROFILE, CHECKPOINT).status


def test_the_odd_one_among_equal_gpus_is_named() -> None:
    """B163: all links of GPU 7 are inactive, those of its equals are up."""
    finding = nvlink_links.run(sick(nvlinks=(False,) * 18), PROFILE, CHECKPOINT)

    assert ("fail", "NVLinks up on GPU 7: 0 of 18") == (finding.status, finding.seen)


@pytest.mark.parametrize("links", [(), (False, False, False), None])
def test_a_pcie_part_has_no_link_that_is_down(links: tuple[bool, ...] | None) -> None:
    """No false alarm: where no GPU has a link up, none is missing; nor is a fabric."""
    facts = sick(8, nvlinks=links, fabric=OFF_FABRIC)
    quiet = replace(facts, health=replace(facts.health, fabric_manager=FabricManager(0, False, None)))

    assert {"skip"} == {
        check.run(quiet, PROFILE, CHECKPOINT).status for check in (nvlink_links, fabric_state, fabric_manager)
    }


def test_a_sliced_gpu_uses_no_nvlink() -> None:
    """No false alarm: MIG switches the links off."""
    sliced = (*gpus(7), replace(gpus(8)[7], mig=True))
    facts = replace(sick(nvlinks=(False,) * 18), gpu=replace(NODE.gpu, gpus=sliced))

    assert "ok" == nvlink_links.run(facts, PROFILE, CHECKPOINT).status


def test_an_absent_fabric_manager_is_named_with_the_driver() -> None:
    """B156: NVSwitches on the bus, the unit inactive, GPUs not registered."""
    facts = node(health={"fabric_manager": FabricManager(4, running=False, versions=None), "gpus": ()})
    finding = fabric_manager.run(facts, PROFILE, CHECKPOINT)

    assert ("fail", True) == (finding.status, "driver 580.95.05" in finding.seen)


@pytest.mark.parametrize(("runs", "status"), [(False, "fail"), (True, "fail"), (None, "unknown")])
def test_switches_that_are_no_pci_devices_are_managed_all_the_same(runs: bool | None, status: str) -> None:
    """NVIDIA/gpu-operator#2781: on an HGX B200 no NVSwitch is on the bus; without ib_umad nobody sets them up."""
    waiting = sick(fabric=Fabric("in-progress", "UNKNOWN", 0, ZERO))
    facts = replace(waiting, health=replace(waiting.health, fabric_manager=FabricManager(0, runs, None)))
    finding = fabric_manager.run(facts, PROFILE, CHECKPOINT)

    assert (status, status == "fail") == (finding.status, "modprobe -a mlx5_ib ib_umad" in finding.hint)


@pytest.mark.parametrize("runs", [False, True])
def test_a_fabric_manager_that_is_starting_is_given_its_time(runs: bool) -> None:
    """Wherever the switches are: GPUs of a node that has just started are not registered yet."""
    waiting = sick(fabric=Fabric("in-progress", "UNKNOWN", 0, ZERO))
    health = replace(waiting.health, fabric_manager=FabricManager(0, runs, None))
    asked = replace(waiting.asked, manager=ManagerState("580.95.05", "activating", 0))

    assert "warn" == fabric_manager.run(replace(waiting, health=health, asked=asked), PROFILE, CHECKPOINT).status


def test_a_fabric_manager_that_ended_where_nothing_is_to_manage_is_no_finding() -> None:
    """NVIDIA/gpu-operator#610: two GPUs without a switch; it says NV_WARN_NOTHING_TO_DO and its unit has failed."""
    failed = {"services": Services(("nvidia-fabricmanager.service",))}
    alone = {"fabric_manager": FabricManager(0, running=False, versions=None)}
    without = tuple(replace(each, fabric=OFF_FABRIC) for each in HEALTH)

    assert ["ok", "warn", "warn"] == [
        sys_failed_units.run(node(upkeep=failed, health=health), None, None).status
        for health in (alone | {"gpus": without}, alone, {"gpus": without})
    ]


def test_a_fabric_manager_of_another_version_is_named_with_both() -> None:
    """B157: the log's complaint gives both versions."""
    manager = FabricManager(4, running=True, versions=("550.90.07", "550.54.15"))
    facts = node(health={"fabric_manager": manager, "gpus": ()})
    finding = fabric_manager.run(facts, PROFILE, CHECKPOINT)

    assert "fail" == finding.status
    assert "the fabric manager refuses: driver interface 550.90.07, driver 550.54.15" == finding.seen


def test_a_pending_remap_warns_and_repaired_rows_do_not() -> None:
    """B165: pending is "reset soon"; four uncorrectable rows that were replaced are repaired."""
    pending = sick(remapped=RemappedRows(0, 4, pending=True, failure=False))
    repaired = sick(remapped=RemappedRows(0, 4, pending=False, failure=False))

    assert ("warn", "ok") == (
        gpu_row_remap.run(pending, PROFILE, CHECKPOINT).status,
        gpu_row_remap.run(repaired, PROFILE, CHECKPOINT).status,
    )


def test_a_failed_remap_fails_and_parts_without_the_feature_do_not() -> None:
    """B167: Yes fails; parts that say N/A have nothing to tell."""
    failed = sick(remapped=RemappedRows(0, 9, pending=False, failure=True))

    assert ("fail", "skip") == (
        gpu_row_remap.run(failed, PROFILE, CHECKPOINT).status,
        gpu_row_remap.run(sick(8, remapped=None), PROFILE, CHECKPOINT).status,
    )


def test_persistence_that_is_off_warns_with_the_measured_time() -> None:
    """B172: off on all, and the first query took 30 s."""
    facts = sick(8, persistence=False)
    facts = replace(facts, health=replace(facts.health, nvml_seconds=30.2))
    finding = gpu_persistence.run(facts, PROFILE, CHECKPOINT)

    assert ("warn", "persistence mode is off on GPU 0-7; asking NVML took 30.2 s") == (finding.status, finding.seen)


def test_errors_of_the_past_are_not_errors_of_today() -> None:
    """Only what was not corrected since the driver was loaded fails."""
    assert ("ok", "fail", "warn") == (
        gpu_ecc.run(sick(ecc_uncorrected=(0, 5)), PROFILE, CHECKPOINT).status,
        gpu_ecc.run(sick(sram_threshold=True), PROFILE, CHECKPOINT).status,
        gpu_ecc.run(sick(ecc=False), PROFILE, CHECKPOINT).status,
    )


def test_a_value_that_nvml_refuses_is_unknown_and_names_the_gpu() -> None:
    """One GPU of eight that does not answer is not ok; one that is bad is found even so."""
    facts = sick(temperature_c=None, persistence=None, refused={"temperature_c": "GPU_IS_LOST", "persistence": "GONE"})
    answers: dict[str, Finding] = {c.id: c.run(facts, PROFILE, CHECKPOINT) for c in CHECKS}

    assert ("unknown", "not readable (GPU 7: GPU_IS_LOST)") == (answers["gpu.temp"].status, answers["gpu.temp"].seen)
    bad = replace(facts.health.gpus[0], persistence=False)
    both = node(health={"gpus": (bad, *facts.health.gpus[1:])})
    assert "warn" == gpu_persistence.run(both, PROFILE, CHECKPOINT).status


def test_what_was_not_asked_is_skipped() -> None:
    """A recording of before these questions gives no finding, and says why."""
    old = node(
        health={
            "gpus": (),
            "pci": (),
            "kernel_events": None,
            "device_nodes": None,
            "open_module": None,
            "fabric_manager": None,
        }
    )
    statuses = {c.id: c.run(old, PROFILE, CHECKPOINT).status for c in CHECKS}

    assert {"ok", "skip"} == set(statuses.values())


def test_a_gpu_that_the_driver_could_not_start_is_named() -> None:
    """gpu-operator#1146, open-gpu-kernel-modules#1230: no Xid is written; a GPU that is listed now came up later."""
    log = (
        "[  885.2] NVRM: GPU6 RmInitAdapter: Cannot initialize GSP firmware RM\n"
        "[  885.3] NVRM: GPU {}: RmInitAdapter failed! (0x62:0x40:2168)\n"
        "[  885.4] NVRM: GPU {}: rm_init_adapter failed, device minor number 6\n"
    )
    dead = gpu_xid_recent.run(logged(log.format("0000:a1:00.0", "0000:a1:00.0")), PROFILE, CHECKPOINT)
    alive = NODE.gpu.gpus[0].bus_id

    assert ("fail", "the driver could not start GPU 0000:a1:00.0: NVRM: GPU 0000:a1:00.0: RmInitAdapter failed!") == (
        dead.status,
        dead.seen.partition(" (0x")[0],
    )
    assert "ok" == gpu_xid_recent.run(logged(log.format(alive, alive)), PROFILE, CHECKPOINT).status


def test_a_gpu_that_was_not_given_is_not_called_dead() -> None:
    """A container reads the kernel log of the whole node: the GPU may be another's, and answer there by now."""
    facts = logged("[  885.3] NVRM: GPU 0000:a1:00.0: RmInitAdapter failed! (0x62:0x40:2168)\n")

    for seen in ({"container": "docker"}, {"slurm_job": True}):
        assert "ok" == gpu_xid_recent.run(replace(facts, os=replace(facts.os, **seen)), PROFILE, CHECKPOINT).status


def test_units_that_cannot_be_seen_are_unknown_and_a_recording_that_was_not_asked_is_skipped() -> None:
    """In a container the host's fabric manager is invisible; that is not a fabric manager that does not run."""
    hidden = FabricManager(4, running=None, versions=None)
    asked = tuple(replace(each, fabric=None) for each in HEALTH)
    old = tuple(GpuHealth(index) for index in range(8))

    assert ("unknown", "skip") == tuple(
        fabric_manager.run(node(health={"fabric_manager": hidden, "gpus": each}), PROFILE, CHECKPOINT).status
        for each in (asked, old)
    )

"""Would the installed engine refuse its command line?"""

from __future__ import annotations

import pytest

from kboot.engines.types import Launch
from kboot.errors import ExitStatus, ProfileError
from kboot.facts.types import EngineFacts
from kboot.plan.flags import flag_warnings
from kboot.profile.types import EngineName, LayoutAsk


def warnings(number: str, *args: str, engine: EngineName = "vllm") -> tuple[str, ...]:
    """Return the warnings for a layout with these arguments."""
    layout = LayoutAsk(name="mine", gpu="B300", gpus_per_node=8, engine=engine, args=args)
    launch = Launch(engine, ("/x", *args), (), (), (), None, None, None, "m", 60, ())
    return flag_warnings(EngineFacts(engine, number, "/x", {}), layout, launch)


def test_a_release_that_would_refuse_is_an_error_before_anything_is_fetched() -> None:
    """vLLM 0.26 does not know kimi_k3: said in the plan, not 150 s into the boot."""
    with pytest.raises(ProfileError) as caught:
        warnings("0.26.0", "--tool-call-parser", "kimi_k3", "--no-such-flag")

    assert ("engine-argument-unknown", ExitStatus.PROFILE) == (caught.value.code, caught.value.status)
    assert "vllm 0.26.0 would refuse layout mine: it does not know tool parser kimi_k3 (known to 0.27.1 and later" in (
        caught.value.message
    )
    assert ("flag --no-such-flag (known to no version kboot was told of)",) == caught.value.where


def test_a_patch_release_is_warned_of() -> None:
    """What 0.33.0 does not know, 0.33.1 may."""
    (warning,) = warnings("0.33.1", "--brand-new-flag", "1")

    assert "vllm 0.33.0 does not know flag --brand-new-flag (known to no version" in warning
    assert warning.endswith("; 0.33.1 is installed")


def test_a_version_nobody_knows_is_not_judged() -> None:
    """It is said that nothing was checked."""
    assert ("flags of vllm 1.2.3 are not checked: kboot knows those of 0.26.0",) == tuple(
        w.partition(",")[0] for w in warnings("1.2.3", "--whatever")
    )


def test_engines_of_ones_own_are_never_judged() -> None:
    """A command or the demo engine takes what it takes."""
    assert () == warnings("1.0", "--whatever", engine="command")
    assert () == warnings("0.33.0", "--trust-remote-code")

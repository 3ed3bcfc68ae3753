"""Where are the profiles that come with kboot?"""

from __future__ import annotations

from pathlib import Path

from kboot.errors import ProfileError

_PACKAGE = Path(__file__).resolve().parent.parent


def shipped_profiles() -> Path:
    """Return the folder with `models/` and `nodes/`: inside the installed package, or at the top of a checkout.

    Raises:
        ProfileError: this installation has neither.
    """
    places = (_PACKAGE / "_data/profiles", _PACKAGE.parent.parent / "profiles")
    for place in places:
        if (place / "models").is_dir():
            return place
    raise ProfileError(
        "profiles-not-installed",
        "this installation of kboot has no profiles folder",
        where=tuple(str(place) for place in places),
        hint="install kboot again from its wheel or with install.sh",
    )

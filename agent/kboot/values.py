"""The standard library's `dataclass`, of which frozen ones share the code that compares, hashes and shows them."""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool = False, **options: Any) -> Any:
        """Return what makes a class a dataclass, as dataclasses.dataclass() does.

        Before Python 3.13 each method of each frozen class is compiled by itself while modules load, a third of what
        kboot's start costs; without these three it is half of that.
        """
        if not frozen:
            return dataclasses.dataclass(**options)
        make = dataclasses.dataclass(frozen=True, eq=False, repr=False, **options)
        return lambda cls: _with_methods(make(cls), frozenset(cls.__dict__))


def _with_methods(cls: Any, own: frozenset[str]) -> Any:
    fields = dataclasses.fields(cls)
    compared = [field.name for field in fields if field.compare]
    named = [field.name for field in fields if field.repr]
    key = attrgetter(*compared) if compared else lambda _: ()

    def equal(self: Any, other: object) -> bool:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: Any) -> int:
        return hash(key(self))

    def shown(self: Any) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in named)})"

    for name, method in {"__eq__": equal, "__hash__": hashed, "__repr__": shown}.items():
        if name not in own:
            setattr(cls, name, method)
    return cls

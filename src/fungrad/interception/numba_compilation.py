"""While numba compiles, every function is the original: numba knows them by identity."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from fungrad.tracing import interception


def _listen(event: ModuleType) -> Mapping[str, Any]:
    """Pauses interception between the events of numba's compiler lock; replaces nothing."""

    class Pause(event.Listener):  # type: ignore[misc, name-defined]
        def on_start(self, _: Any) -> None:
            interception.pause()

        def on_end(self, _: Any) -> None:
            interception.resume()

    event.register("numba:compiler_lock", Pause())
    return {}


interception.register_later("numba.core.event", _listen)

__all__: list[str] = []

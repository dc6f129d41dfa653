"""The evals' modules as they stand, run by JAX and by HIPS autograd; PyTorch has its own.

A module is read, its imports are put in terms of the peer, and it is executed: the same functions,
by another library. autograd has no control flow, `jit` or `vmap`; its loops are Python's. PyTorch's
(pytorch.py) are the evals that GradBench has of it, no other.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Functions = Mapping[str, Callable[[Any], tuple[Callable[[], Any], Callable[[Any], Any]]]]

_PYTORCH = f"{__package__}.pytorch"
_IMPORTS = {
    "jax": {
        "import numpy as np": "import jax.numpy as np",
        "import fungrad as fg": "import jax as fg",
        "from fungrad import lax": "from jax import lax",
    },
    "autograd": {
        "import numpy as np": "import autograd.numpy as np",
        "import fungrad as fg": "from benchmarks.gradbench import autograd_terms as fg",
        "from fungrad import lax": "from benchmarks.gradbench.autograd_terms import lax",
    },
}


def installed(peer: str) -> bool:
    """Whether a peer can be imported."""
    return importlib.util.find_spec(peer) is not None


def runs(peer: str, name: str) -> bool:
    """Whether a peer has an eval."""
    return peer != "torch" or name in importlib.import_module(_PYTORCH).FUNCTIONS


def functions(peer: str, name: str) -> Functions:
    """The table of an eval, its functions run by `peer`."""
    if peer == "torch":
        return _pytorch()[name]
    if peer == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
    return _module(peer, name).FUNCTIONS


def _pytorch() -> Mapping[str, Functions]:
    import torch

    if "OMP_NUM_THREADS" in os.environ:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    functions: Mapping[str, Functions] = importlib.import_module(_PYTORCH).FUNCTIONS
    return functions


def _module(peer: str, name: str) -> Any:
    full = f"{__package__}.{peer}_{name}"
    if full in sys.modules:
        return sys.modules[full]
    path = Path(__file__).with_name(f"{name}.py")
    text = path.read_text(encoding="utf-8")
    for ours, theirs in _IMPORTS[peer].items():
        text = text.replace(ours, theirs)
    if "benchmarks.gradbench.descent" in text:
        _module(peer, "descent")
        text = text.replace("benchmarks.gradbench.descent", f"{__package__}.{peer}_descent")
    module = types.ModuleType(full)
    sys.modules[full] = module
    exec(compile(text, str(path), "exec"), module.__dict__)
    return module


def finished(out: Any) -> Any:
    """Waits for what runs asynchronously."""
    leaves = out.values() if isinstance(out, dict) else out if isinstance(out, tuple) else [out]
    for leaf in leaves:
        if isinstance(leaf, dict | tuple):
            finished(leaf)
        elif hasattr(leaf, "block_until_ready"):
            leaf.block_until_ready()
    return out

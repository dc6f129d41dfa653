"""Damaged files for fg.load: flipped, cut, inserted and doubled bytes, of the archive and inside.

python tests/support/damage.py 20000 [seed]     counts the answers; the first wrong one ends it
"""

from __future__ import annotations

import collections
import io
import json
import random
import re
import resource
import sys
import time
import warnings
import zipfile

import numpy as np

import fungrad as fg
from fungrad.errors import SavedFileError

X = np.array([0.5, 1.5, 2.5])


def _loops(tree, n):
    x = tree["x"]
    x = fg.lax.cond(x[0] > 0, np.sin, np.cos, x)
    x, ys = fg.lax.scan(lambda c, w: (np.tanh(c * w), c[0]), x, np.arange(4.0))
    x = fg.lax.while_loop(lambda c: c[1] < n, lambda c: (c[0] * 0.5, c[1] + 1), (x, 0))[0]
    return {"x": np.sort(x)[np.array([0, 2])], "y": (ys @ ys, x[1:, None] / 2)}


def _numbers(x):
    y = x.astype(np.float16) * np.float16(np.inf) + np.array([[1j, np.nan]] * 3)[:, 0]
    return fg.checkpoint(lambda z: np.fft.fft(z), policy=fg.save_names("a"))(y), np.pad(x, (1, 2))


def files() -> list[bytes]:
    """Files of fg.save for programs with all kinds of values."""
    loss = lambda t, n: np.sum(_loops(t, n)["y"][1] ** 2)  # noqa: E731
    made = [
        fg.make_jaxpr(lambda x: np.sin(x) * 2.0)(1.0),
        fg.export(_loops)({"x": X}, 3),
        fg.export(fg.jit(_numbers))(X),
        fg.export(lambda t: fg.jvp(lambda t: loss(t, 2), (t,), (t,))[1])({"x": X}),
        fg.export(fg.vmap(lambda a: np.linalg.solve(a, X)))(np.ones((2, 3, 3)) + np.eye(3)),
    ]
    result = []
    for each in made:
        file = io.BytesIO()
        fg.save(each, file)
        result.append(file.getvalue())
    return result


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts: dict[str, bytes]) -> bytes:
    """An archive with checksums that are right."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return file.getvalue()


NUMBERS = ["0", "-1", "1", "7", "255", "2147483648", "99999999999999999999", "1e308", "null", '"x"']
NUMBERS += ["[]", "{}", "true", "[[[0]]]", '{"array":0}', '{"graph":0}', '{"float":""}', "0.5"]


def _bytes_changed(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    size = rng.choice([1, 1, 2, 8, 64])
    other = rng.randrange(len(data) + 1)
    kind = rng.randrange(5)
    if kind == 0:
        return (
            data[:at] + bytes(rng.randrange(256) for _ in data[at : at + size]) + data[at + size :]
        )
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data[:at] + bytes(rng.randrange(256) for _ in range(size)) + data[at:]
    if kind == 3:
        return data[:at] + data[other : other + size] + data[at:]
    return data[:at] + data[at + size :]


def _token_changed(text: bytes, rng: random.Random) -> bytes:
    """A number, name or value of the JSON changed, which mostly stays JSON."""
    tokens = list(re.finditer(rb'-?\d+(\.\d+)?|"[^"]*"|null|true|false|\[\]|\{\}', text))
    token = rng.choice(tokens)
    new = rng.choice([*NUMBERS, rng.choice(tokens)[0].decode()]).encode()
    return text[: token.start()] + new + text[token.end() :]


def _subtree_changed(text: bytes, rng: random.Random) -> bytes:
    """A value of the JSON replaced by another one of the same file, doubled or dropped."""
    content = json.loads(text)
    places: list = []

    def visit(node):
        for key in node.keys() if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                visit(node[key])

    visit(content)
    (node, key), (other, there) = rng.choice(places), rng.choice(places)
    kind = rng.randrange(3)
    if kind == 0:
        node[key] = json.loads(json.dumps(other[there]))
    elif kind == 1:
        del node[key]
    elif isinstance(node, list):
        node.insert(key, json.loads(json.dumps(node[key])))
    return json.dumps(content).encode()


def mutant(data: bytes, rng: random.Random) -> bytes:
    """One damaged copy of a file: of its bytes, or of a member's with the checksums made right."""
    kind = rng.randrange(6)
    if kind == 0:
        return _bytes_changed(data, rng)
    parts = members(data)
    name = "graph.json"
    if kind == 1:
        name = rng.choice(list(parts))
    change = [_bytes_changed, _bytes_changed, _bytes_changed, _token_changed, _token_changed]
    parts[name] = [*change, _subtree_changed][kind](parts[name], rng)
    if rng.random() < 0.2:  # twice
        parts[name] = _bytes_changed(parts[name], rng)
    return packed(parts)


def every_byte(data: bytes, rng: random.Random) -> list[bytes]:
    """The file with each of its bytes changed in turn, then each of graph.json, checksums right."""
    raw = [
        data[:i] + bytes([data[i] ^ rng.randrange(1, 256)]) + data[i + 1 :]
        for i in range(len(data))
    ]
    parts = members(data)
    text = parts["graph.json"]
    for i in range(len(text)):
        changed = text[:i] + bytes([text[i] ^ rng.randrange(1, 128)]) + text[i + 1 :]
        raw.append(packed({**parts, "graph.json": changed}))
    return raw


def answer(data: bytes) -> str:
    """The answer of fg.load to a file: `loaded`, or the class of the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fg.load(io.BytesIO(data))
        except SavedFileError:
            return "SavedFileError"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return "loaded"


def main(count: int, seed: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))
    rng = random.Random(seed)
    originals = files()
    single = every_byte(originals[0], rng)
    found: collections.Counter[str] = collections.Counter()
    slowest = 0.0
    for number in range(count):
        data = single[number] if number < len(single) else mutant(rng.choice(originals), rng)
        start = time.process_time()
        said = answer(data)
        slowest = max(slowest, time.process_time() - start)
        found[said] += 1
        if said not in ("loaded", "SavedFileError"):
            sys.exit(f"number {number} of seed {seed}: {said}")
        if time.process_time() - start > 2:
            print("slow", number, time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{count} files, the first {len(single)} every byte of one: {dict(found)}")
    print(f"slowest {slowest:.3f} s, peak {peak} MB")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)

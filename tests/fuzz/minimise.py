"""Makes a program that disagrees small: fewer steps and outputs, simpler values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from .inputs import Input
from .program import NAME, Body, Program, Step

Holds = Callable[[Program], bool]


def renamed(step: Step, names: dict[str, str]) -> Step:
    """A step that reads other names."""

    def swap(text: str) -> str:
        return NAME.sub(lambda m: names.get(m.group(), m.group()), text)

    bodies = tuple(
        replace(b, steps=tuple(renamed(s, names) for s in b.steps), result=swap(b.result))
        for b in step.bodies
    )
    between = tuple(map(swap, step.between))
    return replace(step, text=swap(step.text), bodies=bodies, between=between)


def _renamed_after(program: Program, position: int, names: dict[str, str]) -> Program:
    """The program without the step at a position, with other names for its targets."""
    steps = (*program.steps[:position], *(renamed(s, names) for s in program.steps[position + 1 :]))
    outputs = tuple(dict.fromkeys(names.get(o, o) for o in program.outputs))
    return replace(program, steps=steps, outputs=outputs)


def _fewer_outputs(program: Program) -> Iterator[Program]:
    if len(program.outputs) > 1:
        for name in program.outputs:
            yield replace(program, outputs=(name,))


def _earlier_outputs(program: Program) -> Iterator[Program]:
    for step in program.steps[:-1]:
        for name in step.targets:
            yield replace(program, outputs=(name,))


def _without_steps(program: Program) -> Iterator[Program]:
    for i in reversed(range(len(program.steps))):
        step = program.steps[i]
        others = [*sorted(step.reads()), *program.names]
        for name in dict.fromkeys(others):
            yield _renamed_after(program, i, dict.fromkeys(step.targets, name))


def _cut(program: Program) -> Iterator[Program]:
    """Programs in which the results of a step become inputs."""
    scope = dict(zip(program.names, program.args(), strict=True))
    for i in reversed(range(len(program.steps))):
        step = program.steps[i]
        if len(step.targets) != 1:
            continue
        upto = replace(program, steps=program.steps[: i + 1], outputs=step.targets)
        try:
            with np.errstate(all="ignore"):
                value = np.asarray(upto.plain(*scope.values())[0])
        except Exception:  # it fails before this step: there is nothing to cut
            continue
        if value.size > 64:
            continue
        name = f"x{max([90, *(int(n[1:]) for n in program.names)]) + 1}"
        numbers = tuple(value.ravel().tolist()) or (1.0,)
        given = Input(numbers, value.shape, value.dtype.name)
        cut = _renamed_after(program, i, {step.targets[0]: name})
        yield replace(cut, names=(*cut.names, name), inputs=(*cut.inputs, given))


def _bodies(program: Program) -> Iterator[Program]:
    """Programs with fewer steps inside loops, branches and functions, or with those inlined."""
    for i, step in enumerate(program.steps):
        for k, body in enumerate(step.bodies):
            for smaller in _smaller_bodies(body):
                bodies = (*step.bodies[:k], smaller, *step.bodies[k + 1 :])
                yield _with_step(program, i, replace(step, bodies=bodies))


def _opened(program: Program) -> Iterator[Program]:
    """The steps of a body in the place of the loop, branch or call that runs it."""
    for i, step in enumerate(program.steps):
        for body in step.bodies:
            result = NAME.findall(body.result)
            for name in dict.fromkeys([*sorted(step.reads()), *program.names]) if result else ():
                names = dict.fromkeys(body.params, name)
                inner = tuple(renamed(s, names) for s in body.steps)
                for given in dict.fromkeys(result):
                    target = dict.fromkeys(step.targets, names.get(given, given))
                    rest = _renamed_after(program, i, target)
                    yield replace(rest, steps=(*rest.steps[:i], *inner, *rest.steps[i:]))


def _smaller_bodies(body: Body) -> Iterator[Body]:
    for i in reversed(range(len(body.steps))):
        step = body.steps[i]
        for name in dict.fromkeys([*sorted(step.reads()), *body.params]):
            names = dict.fromkeys(step.targets, name)
            rest = tuple(renamed(s, names) for s in body.steps[i + 1 :])
            result = NAME.sub(lambda m, names=names: names.get(m.group(), m.group()), body.result)
            yield replace(body, steps=(*body.steps[:i], *rest), result=result)
        for k, inner in enumerate(step.bodies):
            for smaller in _smaller_bodies(inner):
                bodies = (*step.bodies[:k], smaller, *step.bodies[k + 1 :])
                changed = replace(step, bodies=bodies)
                yield replace(body, steps=(*body.steps[:i], changed, *body.steps[i + 1 :]))
    for name in dict.fromkeys(NAME.findall(body.result)):
        for param in body.params:
            if name != param:
                yield replace(body, result=body.result.replace(name, param))


def _with_step(program: Program, i: int, step: Step) -> Program:
    return replace(program, steps=(*program.steps[:i], step, *program.steps[i + 1 :]))


def _shorter(program: Program) -> Iterator[Program]:
    """Programs with a common length reduced in all inputs, or an axis dropped."""
    everything = [*program.inputs, *(value for _, value in program.captured)]
    lengths = sorted({n for value in everything for n in value.shape if n > 1}, reverse=True)
    for n in lengths:
        for m in dict.fromkeys((1, 2, n // 2, n - 1)):
            if m < n:
                yield _mapped(
                    program,
                    lambda v, n=n, m=m: replace(
                        v, shape=tuple(m if k == n else k for k in v.shape)
                    ),
                )
    yield _mapped(program, lambda v: replace(v, shape=v.shape[1:]) if v.layout == "c" else v)
    yield _mapped(program, lambda v: replace(v, shape=()) if v.layout == "c" else v)


def _mapped(program: Program, change: Callable[[Input], Input]) -> Program:
    return replace(
        program,
        inputs=tuple(change(v) for v in program.inputs),
        captured=tuple((name, change(v)) for name, v in program.captured),
    )


def _simpler_values(program: Program) -> Iterator[Program]:
    for i, value in enumerate(program.inputs):
        value = _trimmed(value)
        for smaller in (value, *value.smaller()):
            if smaller != program.inputs[i]:
                yield replace(
                    program, inputs=(*program.inputs[:i], smaller, *program.inputs[i + 1 :])
                )
    for i, (name, value) in enumerate(program.captured):
        rest = (*program.captured[:i], *program.captured[i + 1 :])
        yield replace(
            program, captured=rest, names=(*program.names, name), inputs=(*program.inputs, value)
        )


def _trimmed(value: Input) -> Input:
    count = max(int(np.prod(value.shape)), 1)
    return replace(value, base=value.base[:count])


PASSES = (
    _fewer_outputs,
    _earlier_outputs,
    _cut,
    _without_steps,
    _opened,
    _bodies,
    _shorter,
    _simpler_values,
)


def minimise(program: Program, holds: Holds, seconds: float = 20.0) -> Program:
    """The smallest program found within `seconds` of CPU time that still disagrees by `holds`."""
    end = time.process_time() + seconds
    best, seen = program, {str(program)}
    shrunk = True
    while shrunk and time.process_time() < end:
        shrunk = False
        for candidates in PASSES:
            found: Program | None = best
            while found is not None and time.process_time() < end:
                found = _first(candidates(best), holds, seen, end, _size(best))
                if found is not None:
                    best, shrunk = found, True
    return best


def _first(
    candidates: Iterator[Program], holds: Holds, seen: set[str], end: float, limit: tuple[int, ...]
) -> Program | None:
    for candidate in candidates:
        if time.process_time() > end:
            return None
        candidate = candidate.live()
        text = str(candidate)
        if text in seen or _size(candidate) >= limit:
            continue
        seen.add(text)
        if holds(candidate):
            return candidate
    return None


def _size(program: Program) -> tuple[int, ...]:
    lines = program.source.count("\n")
    elements = sum(min(int(np.prod(v.shape)), 1000) for v in program.inputs)
    numbers = sum(len(repr(v.base)) for v in program.inputs)
    plainness = sum((v.layout != "c") + (v.kind != "array") for v in program.inputs)
    return (lines, len(program.outputs), elements + plainness + numbers, len(str(program)))

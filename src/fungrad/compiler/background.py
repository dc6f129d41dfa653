"""Builds in another thread: until a program is ready, its Graph is evaluated.

One thread builds the programs of all functions, one after the other, while there are any. A fork,
and the end of the process, wait for the build that runs; what still waits is dropped at the end,
and built anew in a forked child.
"""

from __future__ import annotations

import atexit
import contextvars
import functools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.control_flow.call import Backend, Runner, with_backend
from fungrad.ir.graph import Graph
from fungrad.support import forks
from fungrad.support.choices import one_of
from fungrad.support.lazy import Module

checked_program: Any = Module("fungrad.compiler.self_check.checked_program")

SETTINGS = ("now", "background")
WAITING = "evaluated: its program is being built in another thread"


class _State:
    """The setting `fg.config.build`."""

    def __init__(self) -> None:
        self.setting = os.environ.get("FUNGRAD_BUILD", "now")


state = _State()
listeners: list[Callable[[], None]] = []
"""Called when the function that runs a Graph has been replaced."""


def drop() -> None:
    """Drops the builds that have not begun; functions that are called again are built again."""
    _builder.drop()


def choose(setting: str) -> None:
    """Sets when programs are built; "now" waits for those that are being built.

    Raises:
      ArgumentError: if there is no such setting.
    """
    state.setting = one_of(SETTINGS, setting, "fg.config.build")
    if setting == "now":
        _builder.finish()


class _Job:
    """A build, in the context of its caller.

    Attributes:
      ended: whether it ended, with a program or an error.
      dropped: whether it will not run.
      seconds: how long it took.
    """

    def __init__(self, build: Callable[[], Runner | None]) -> None:
        self._run: Callable[[], Runner | None] | None
        self._run = functools.partial(contextvars.copy_context().run, build)
        self.ended = self.dropped = False
        self.seconds = 0.0
        self._program: Runner | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        started = time.thread_time()
        try:
            self._program = self._run() if self._run else None
        except BaseException as error:  # raised again where the program is needed
            self._error = error
        self._run, self.seconds = None, time.thread_time() - started
        self.ended = True

    def program(self) -> Runner | None:
        """The program.

        Raises:
          BaseException: that of the build.
        """
        if self._error is not None:
            raise self._error
        return self._program


class _Builder:
    """The thread that builds, and the jobs before it. `running` is held during a build."""

    def __init__(self) -> None:
        self.running = forks.lock()
        self._lock = forks.lock()
        self._waiting: deque[_Job] = deque()
        self._thread: threading.Thread | None = None
        self.stopped = False

    def add(self, job: _Job) -> None:
        with self._lock:
            self._waiting.append(job)
        self.start()

    def start(self) -> None:
        """Starts the thread, if there is none and jobs wait."""
        if self._thread is None:
            with self._lock:
                if self._thread is None and self._waiting and not self.stopped:
                    work = threading.Thread(target=self._work, name="fungrad-build", daemon=True)
                    self._thread = work
                    work.start()

    def _work(self) -> None:
        while True:
            with self.running:
                with self._lock:
                    if not self._waiting:
                        self._thread = None
                        return
                    job = self._waiting.popleft()
                job.run()

    def finish(self) -> None:
        """Waits until all jobs have ended."""
        while (thread := self._thread) is not None:
            thread.join()

    def drop(self) -> None:
        """Drops the jobs that wait."""
        with self._lock:
            for job in self._waiting:
                job.dropped = True
            self._waiting.clear()

    def stop(self) -> None:
        """Ends for good; waits for the job that runs: LLVM must not be in the midst of its work
        when the process ends.
        """
        self.stopped = True
        self.drop()
        self.finish()

    def in_child(self) -> None:
        """A forked child has no such thread; it starts one at the next call of what waits."""
        self._thread = None


_builder = _Builder()
forks.in_child(_builder.in_child)
atexit.register(_builder.stop)


class BuiltLater:
    """Evaluates a Graph until its program is ready, which then takes its place.

    Args:
      backend: makes and checks the program.
      graph: the Graph.
      build, settle: see `Backend.checked`.
    """

    def __init__(
        self,
        backend: Backend,
        graph: Graph,
        build: Callable[[], Runner | None],
        settle: Callable[[Runner], None],
    ) -> None:
        self._backend, self._graph, self._settle_graph = backend, graph, settle
        self._evaluate: Runner = checked_program.evaluator(graph)
        self._runner: Runner | None = None
        self._build = build
        checked_program.note(graph, WAITING)
        self._job = self._added()

    def _added(self) -> _Job:
        job = _Job(functools.partial(with_backend, self._backend, self._build))
        _builder.add(job)
        return job

    def __call__(self, *args: Any) -> Sequence[Any]:
        runner = self._runner or self._ready()
        return self._evaluate(*args) if runner is None else runner(*args)

    def _ready(self) -> Runner | None:
        """The function that runs the Graph from now on; None while the program is being built."""
        job = self._job
        if job.dropped and not _builder.stopped:
            self._job = self._added()
        if not job.ended:
            _builder.start()
            return None
        compile = self._backend.compile
        runner = checked_program.checked(
            self._graph, job.program, self._settle, compile, job.seconds
        )
        self._runner = runner or self._evaluate
        if not isinstance(runner, checked_program.CheckedProgram):  # that one settles itself
            self._settle(self._runner)
        return self._runner

    def _settle(self, runner: Runner) -> None:
        self._runner = runner
        self._settle_graph(runner)
        for listener in listeners:
            listener()

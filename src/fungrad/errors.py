"""Every exception and warning that fungrad raises.

One class for each mistake. The docstring shows the failing program and the repaired one. The
message states the cause, the rewrite, the user's line, and the command that shows the docstring:
`fungrad explain NAME`.
"""

from __future__ import annotations


class FungradError(Exception):
    """The base of all errors that fungrad raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message}\n(more: fungrad explain {type(self).__name__})")
        self.message = message


def instead_of(asked: str) -> str:
    """The rewrite of code that needs the number of an unknown value by the operation `asked`."""
    if asked == "bool()":
        return (
            "Use np.where or fg.lax.cond instead of `if`, np.logical_and instead of `and`, "
            "np.maximum instead of max()"
        )
    if asked == "an index":
        return "range(n), shapes and places in lists need Python's own number"
    if asked.startswith("format("):
        return 'To print a value, write fg.debug.print("{x}", x=x)'
    if asked.startswith(_BY_MASK):
        return (
            "Keep the shape: np.where(mask, x, 0.0), np.sum(x[mask]) and other reductions; or give "
            "the number of elements: x[fg.numpy.flatnonzero(mask, size=n, fill_value=0)]"
        )
    if asked in ("float()", "complex()", ".item()", ".tolist()"):
        return (
            "Leave the number as it is: NumPy's functions, those of math and of fungrad.scipy take "
            "it; write fg.numpy.asarray(x, dtype=float) for np.asarray(x, dtype=float)"
        )
    return "A shape or dtype cannot depend on a traced value"


_BY_MASK = (
    "a boolean index", "np.where(", "np.nonzero", "np.flatnonzero", "np.argwhere", "np.compress(",
    "np.extract(",
)  # fmt: skip
"""Functions whose results have one element for each true element of a condition."""


class AbstractBooleanError(FungradError, TypeError):
    """Python needs True or False, but under make_jaxpr, in the body of a loop, or under jit with
    `branches="error"`, only the type of the value is known; or the examples of vmap give different
    answers.

    Fails::

        fg.vmap(lambda x: x if x > 0 else -x)(np.array([1.0, -1.0]))

    Repaired::

        fg.vmap(lambda x: np.where(x > 0, x, -x))(np.array([1.0, -1.0]))
    """


class AbstractValueError(FungradError, TypeError):
    """Python needs a number, but only the type of the traced value is known.

    Fails::

        fg.make_jaxpr(lambda n: np.zeros(int(n)))(3)

    Repaired: name the argument that is to stay a number; or close over it::

        fg.make_jaxpr(lambda n: np.zeros(int(n)), static_argnums=0)(3)

    Print by `fg.debug.print("{x}", x=x)`; select by a mask by `np.where(mask, x, 0.0)`,
    `np.sum(x[mask])`, or `x[fg.numpy.flatnonzero(mask, size=n)]`.
    """

    indexes_array = False
    """Whether a traced value indexed a plain ndarray."""


class BranchError(FungradError, RuntimeError):
    """A function compiled with `branches="guard"` takes too many paths, or a different one at the
    same arguments.

    Fails: each n is another path, with a program of its own::

        f = fg.jit(lambda x, n: x ** int(n), branches="guard", max_paths=4)
        for n in range(10):
            f(2.0, n)

    Repaired: let the program depend on the value, not on the answer::

        f = fg.jit(lambda x, n: x ** n)
        for n in range(10):
            f(2.0, n)
    """


class NonScalarOutputError(FungradError, TypeError):
    """`grad` was asked for the gradient of a function whose output is not one real number.

    Fails::

        fg.grad(lambda x: x**2)(np.arange(3.0))

    Repaired: sum it, or ask for the Jacobian or a pullback; of a pair (loss, aux) say so::

        fg.grad(lambda x: np.sum(x**2))(np.arange(3.0))
        fg.grad(lambda x: (np.sum(x**2), x), has_aux=True)(np.arange(3.0))
    """


class NonDifferentiableInputError(FungradError, TypeError):
    """`grad` was asked to differentiate with respect to an integer, boolean, string or other
    object.

    Fails::

        fg.grad(lambda p: p["w"] ** 2)({"w": 3})

    Repaired: make it a float, choose others with `argnums`, or pass `nondiff="none"`::

        fg.grad(lambda p: p["w"] ** 2)({"w": 3.0})
    """


class ItemAssignmentError(FungradError, TypeError):
    """A write that would not reach the array, or would cut a derivative: of a traced value into an
    ndarray that compiled code has made, into a read-only view or an array that the body of a loop
    captured; or into a large ndarray whose values a derivative still needs.

    Fails::

        def f(x):
            row = np.loadtxt(["1 2 3"])
            row[0] = x[0]
            return np.sum(row**2)

    Repaired::

        def f(x):
            row = np.array(np.loadtxt(["1 2 3"]))
            row[0] = x[0]
            return np.sum(row**2)

    `fg.numpy.at(a)[i].set(x)` gives a changed copy of any array.
    """


class GradientCutError(FungradError, TypeError):
    """A traced value was turned into a Python number, which would cut its gradient silently.

    By compiled code, or by a write into an ndarray: `array[i] = x`, or NumPy's `asarray(x,
    dtype=float)`, imported by its own name. (`float(x)`, `np.float64(x)` and `x.item()` in Python
    code are traced numbers.)

    Fails::

        fg.grad(lambda x: array.array("d", [x])[0] ** 2)(1.0)

    Repaired: leave the number as it is, make arrays by `fg.numpy.asarray` or `np.stack`, or cut the
    gradient on purpose::

        fg.grad(lambda x: x**2)(1.0)
        fg.grad(lambda x: np.sum(fg.numpy.asarray([x, x], dtype=float)))(1.0)
        fg.grad(lambda x: x * math.sin(float(fg.stop_gradient(x))))(1.0)
    """


class MemoryAccessError(FungradError, TypeError, AttributeError):
    """Code needed the memory of a traced value, which has none: by `.data`, `.ctypes`,
    `.tobytes()`, by pickling it, or in compiled code.

    Fails::

        fg.grad(lambda x: library.norm(x.ctypes.data, x.size))(x)

    Repaired: give compiled code plain numbers, and declare its derivative::

        norm = fg.external(lambda x: library.norm(x.ctypes.data, x.size), vjp=...)
        fg.grad(norm)(x)

    It is an AttributeError as well: `hasattr(x, "data")` is false.
    """


class UnsupportedFunctionError(FungradError, TypeError):
    """A NumPy function that fungrad does not implement was called on a traced value.

    Fails::

        fg.grad(lambda x: np.sum(np.where(np.isnat(x), 0.0, x)))(x)

    Repaired: the message names a supported function with a similar name, or, for a function of
    SciPy, that of `fungrad.scipy`; or write it from supported functions, or declare a primitive
    with `fungrad.extend`.
    """


class UnsupportedArgumentError(FungradError, TypeError):
    """A NumPy function was called on a traced value with an argument that has no meaning there.

    Fails::

        fg.grad(lambda x: np.sum(np.log(x, where=x > 0.0)))(x)

    Repaired::

        fg.grad(lambda x: np.sum(np.where(x > 0.0, np.log(x), 0.0)))(x)
    """


class LeakedTracerError(FungradError, RuntimeError):
    """A traced value was used after the transform that made it had ended, or in another thread.

    After an eager gradient it is its value, wherever no other derivative is computed.

    Fails::

        kept = []
        fg.jit(lambda x: kept.append(x) or x**2)(1.0)
        np.sin(kept[0])

    Repaired: return the value (with `has_aux=True`), or keep `fg.stop_gradient(x)` of a gradient::

        fg.jit(lambda x: (x**2, x))(1.0)
    """


class ClosedOverTracerError(FungradError, RuntimeError):
    """A custom rule closes over a value of the very transform that uses the rule.

    Fails: the rule cannot say how the function depends on w, which is no argument of it::

        def loss(w):
            @fg.custom_vjp
            def f(x):
                return w * x
            f.defvjp(lambda x: (w * x, None), lambda _, g: (w * g,))
            return f(2.0)

        fg.grad(loss)(3.0)

    Repaired: pass it as an argument::

        @fg.custom_vjp
        def f(w, x):
            return w * x

        f.defvjp(lambda w, x: (w * x, (w, x)), lambda saved, g: (saved[1] * g, saved[0] * g))
        fg.grad(lambda w: f(w, 2.0))(3.0)
    """


class StructureMismatchError(FungradError, TypeError):
    """Two trees, or two lists of types, that have to agree do not.

    Fails: the cotangent of a pullback has another structure than the output::

        out, pullback = fg.vjp(lambda x: (x, x), 1.0)
        pullback(1.0)

    Repaired::

        pullback((1.0, 1.0))
    """


class MissingRuleError(FungradError, NotImplementedError):
    """A transform met a primitive that declares no rule for it.

    Fails::

        f = fg.extend.general("f", eval=np.sort, type=lambda x: x)
        fg.grad(lambda x: np.sum(f(x)))(x)

    Repaired: give the rule in the declaration (`vjp=...`).
    """


class UnconnectedError(FungradError, ValueError):
    """With `unconnected="error"`: the output does not depend differentiably on an input.

    Fails::

        fg.grad(lambda x: np.sum(fg.stop_gradient(x)), unconnected="error")(x)

    Repaired: remove what cuts the path, or accept zeros (`unconnected="zero"`) or None
    (`unconnected="none"`).
    """


class BatchAxisError(FungradError, ValueError):
    """`vmap` was given axes that the arguments do not have, or whose sizes differ.

    Fails::

        fg.vmap(np.dot)(np.ones((3, 2)), np.ones((4, 2)))

    Repaired: give every mapped argument the same length along its axis, or None in `in_axes`.
    """


class InvalidGraphError(FungradError, ValueError):
    """A Graph is not well formed: a variable is ill-typed, undefined or assigned twice.

    Fails: building a Graph by hand with a variable that no equation defines.

    Repaired: define every variable once, before its use, with the type that the primitive's rule
    infers.
    """


class ShapeError(FungradError, ValueError):
    """The shapes or dtypes of a primitive's arguments do not fit together.

    Fails::

        fg.make_jaxpr(lambda x, y: x @ y)(np.ones((2, 3)), np.ones((2, 3)))

    Repaired::

        fg.make_jaxpr(lambda x, y: x @ y.T)(np.ones((2, 3)), np.ones((2, 3)))
    """


class ArgumentError(FungradError, TypeError):
    """A transform was called with an argument that it cannot take.

    Fails::

        fg.grad(lambda x: x, argnums=2)(1.0)

    Repaired: name an argument that the function has.
    """


class NonLinearError(FungradError, ValueError):
    """`linear_transpose` was given a function that is not linear.

    Fails::

        fg.linear_transpose(lambda x: x * x, 1.0)

    Repaired: transpose the derivative at a point, which is linear::

        out, pushforward = fg.linearize(lambda x: x * x, 3.0)
        fg.linear_transpose(pushforward, 1.0)
    """


class MissingExtraError(FungradError, ImportError):
    """An optional part of fungrad was used without the library that it needs.

    Fails: `fungrad.testing.arrays()` where Hypothesis is not installed.

    Repaired: install the extra that the message names, as `pip install 'fungrad[test]'`.
    """


class GradientCheckError(FungradError, AssertionError):
    """`fungrad.testing.check_grads` found a derivative that finite differences contradict.

    Fails: the rule of a primitive, or of a custom derivative, has a wrong sign::

        cube = fg.extend.elementwise("cube", lambda x: x**3, partials=[lambda y, x: -3.0 * x**2])
        fg.testing.check_grads(cube, [2.0])

    Repaired::

        cube = fg.extend.elementwise("cube", lambda x: x**3, partials=[lambda y, x: 3.0 * x**2])
        fg.testing.check_grads(cube, [2.0])
    """


class TrapError(FungradError, FloatingPointError):
    """Under `fg.debug.trap`: a NaN, an infinity or a kink was met.

    Fails::

        with fg.debug.trap():
            fg.grad(np.sqrt)(0.0)

    Repaired: keep the values inside the domain, for example with `np.where`::

        with fg.debug.trap():
            fg.grad(lambda x: np.sqrt(np.where(x > 0, x, 1.0)))(0.0)
    """


class SavedFileError(FungradError, ValueError):
    """A file was not written by `fg.save`, is damaged, or needs modules that are not imported.

    Fails::

        fg.load("weights.npz")

    Repaired: write it by `fg.save`; import the modules that declare its primitives and containers
    before::

        fg.save(fg.export(f)(x), "f.fungrad")
        fg.load("f.fungrad")(x)
    """


class RetraceWarning(UserWarning):
    """A jitted function is traced again at nearly every call: jit costs more than it saves.

    Fails: each length is a trace::

        f = fg.jit(np.sum)
        for n in range(40):
            f(np.ones(n))

    Repaired: pad to few shapes, pass numbers as arguments that are not static, or leave out jit::

        for n in range(40):
            f(np.pad(np.ones(n), (0, 40 - n)))
    """


class CapturedStateWarning(UserWarning):
    """Something that a jitted function reads outside of its arguments has changed: it is compiled
    anew, and calls since the change may have used the old value.

    Fails: the function closes over a number that changes::

        rate = 0.1
        step = fg.jit(lambda x: x - rate * x)
        step(1.0)
        rate = 0.01
        step(1.0)

    Repaired: what changes is an argument::

        step = fg.jit(lambda x, rate: x - rate * x)
        step(1.0, 0.1)
        step(1.0, 0.01)
    """


class OpaqueCallWarning(UserWarning):
    """A function contains code that cannot be traced, and is differentiated by differences.

    In the mode "differences" this is what was asked for; the warning names the function once, with
    the digits and the cost. Fails, where the warning is made an error::

        with fg.opaque("differences"):
            fg.grad(lambda x: package.compiled(x))(2.0)

    Repaired: the function has a derivative of its own::

        compiled = fg.external(package.compiled, vjp=lambda g, y, x: g * package.slope(x))
        fg.grad(compiled)(2.0)
    """


class DensePatternWarning(UserWarning):
    """A sparsity pattern is nearly full: a sparse derivative costs more than it saves.

    Fails: each entry depends on all, by the sum::

        fg.sparse.jacobian(lambda x: x * np.sum(x))(np.ones(50))

    Repaired: take the dense Jacobian, give `pattern=`, or change the lines that the message names::

        fg.jacobian(lambda x: x * np.sum(x))(np.ones(50))
    """


class TracingError(FungradError, AssertionError):
    """A function computes another value under a trace than in a plain call.

    Code of another package takes another path if its numbers are traced: it asks for their class,
    or reads their memory. A derivative would be that of another function. Fails, where `package`
    doubles numbers of the class float and triples all others::

        fg.grad(package.scaled)(2.0)

    Repaired: the function is opaque, and has a derivative::

        fg.grad(fg.external(package.scaled, vjp="finite_differences"))(2.0)
    """

    function: object = None
    """The function."""


class MiscompiledError(FungradError, AssertionError):
    """A compiled program disagrees with the evaluator, and FUNGRAD_STRICT=1 makes that an error.

    Fails: a kernel that triples where its primitive doubles::

        os.environ["FUNGRAD_STRICT"] = "1"
        double = fg.extend.elementwise("double", lambda x: 2.0 * x, partials=[2.0])
        fg.extend.kernel(double, lambda x, out: np.multiply(x, 3.0, out))
        fg.jit(lambda x: double(x) + 1.0)(np.ones(50_000))

    Repaired: the kernel computes what the primitive computes::

        fg.extend.kernel(double, lambda x, out: np.multiply(x, 2.0, out))
    """


class MiscompiledWarning(UserWarning):
    """The first run of a compiled program differs from the evaluator's by more than rounding.

    fungrad returns the evaluator's numbers, and evaluates the function from then on: slower, but
    right. The message names a file, which fg.load opens: please report it.

    Fails: a kernel that triples where its primitive doubles::

        double = fg.extend.elementwise("double", lambda x: 2.0 * x, partials=[2.0])
        fg.extend.kernel(double, lambda x, out: np.multiply(x, 3.0, out))
        fg.jit(lambda x: double(x) + 1.0)(np.ones(50_000))

    Repaired: the kernel computes what the primitive computes::

        fg.extend.kernel(double, lambda x, out: np.multiply(x, 2.0, out))
    """


class CompilerWarning(UserWarning):
    """A part of the compiler has raised an error; the function is evaluated instead.

    The numbers are right, and slower than compiled ones. The message names a file, which fg.load
    opens: please report it. FUNGRAD_STRICT=1 raises the error instead.

    Fails: a kernel that does not take the array that it has to fill::

        triple = fg.extend.elementwise("triple", lambda x: 3.0 * x, partials=[3.0])
        fg.extend.kernel(triple, lambda x: 3.0 * x)
        fg.jit(lambda x: triple(x) + x)(np.ones(50_000))

    Repaired: a kernel writes its result into the last argument::

        fg.extend.kernel(triple, lambda x, out: np.multiply(x, 3.0, out))
    """

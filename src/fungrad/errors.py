"""Floor 0: every exception that fungrad raises. Knows nothing of the rest of the library.

One class for each mistake. The docstring shows the failing program and the repaired one; the
message says the cause and the rewrite, names the user's line, and points to the class's entry in
docs/errors.md.
"""

from __future__ import annotations


class FungradError(Exception):
    """The base of all errors that fungrad raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message}\n(docs/errors.md#{type(self).__name__.lower()})")
        self.message = message


class AbstractBooleanError(FungradError, TypeError):
    """Python asked for the truth of a value that is only known as a type (under make_jaxpr, jit or
    vmap).

    Fails::

        fg.vmap(lambda x: x if x > 0 else -x)(xs)

    Repaired::

        fg.vmap(lambda x: np.where(x > 0, x, -x))(xs)
    """


class AbstractValueError(FungradError, TypeError):
    """Python asked for the number inside a value that is only known as a type.

    Fails::

        fg.make_jaxpr(lambda n: np.zeros(int(n)))(3)

    Repaired: close over the number, or return it as an output of the traced function::

        fg.make_jaxpr(lambda: np.zeros(3))()
    """


class NonScalarOutputError(FungradError, TypeError):
    """`grad` was asked for the gradient of a function whose output is not one real number.

    Fails::

        fg.grad(lambda x: x**2)(np.arange(3.0))

    Repaired: sum it, or ask for the Jacobian or a pullback::

        fg.grad(lambda x: np.sum(x**2))(np.arange(3.0))
    """


class NonDifferentiableInputError(FungradError, TypeError):
    """`grad` was asked to differentiate with respect to an integer, boolean, string or other
    object.

    Fails::

        fg.grad(lambda p: p["w"] ** 2)({"w": 3})

    Repaired: make it a float, leave it out by `argnums`, or pass `nondiff="none"`::

        fg.grad(lambda p: p["w"] ** 2)({"w": 3.0})
    """


class ItemAssignmentError(FungradError, TypeError):
    """An assignment into a traced array, or in place by a traced value: traced arrays are values.

    Fails::

        def f(x):
            x[0] = 0.0
            return np.sum(x)

    Repaired::

        def f(x):
            x = x.at[0].set(0.0)
            return np.sum(x)
    """


class GradientCutError(FungradError, TypeError):
    """A traced value was turned into a Python number, which would cut its gradient silently.

    Fails::

        fg.grad(lambda x: math.sin(x))(1.0)

    Repaired: use NumPy's function, or cut the gradient on purpose::

        fg.grad(lambda x: np.sin(x))(1.0)
        fg.grad(lambda x: x * math.sin(float(fg.stop_gradient(x))))(1.0)
    """


class UnsupportedFunctionError(FungradError, TypeError):
    """A NumPy function that fungrad has no implementation of was called on a traced value.

    Fails::

        fg.grad(lambda x: np.packbits(x))(x)

    Repaired: the message names the nearest supported function; or write the function from supported
    ones; or declare a primitive with `fungrad.extend`.
    """


class UnsupportedArgumentError(FungradError, TypeError):
    """A NumPy function was called on a traced value with an argument that has no meaning there.

    Fails::

        fg.grad(lambda x: np.sum(np.sin(x, out=buffer)))(x)

    Repaired::

        fg.grad(lambda x: np.sum(np.sin(x)))(x)
    """


class LeakedTracerError(FungradError, RuntimeError):
    """A traced value was used after the transform that made it had ended, or in another thread.

    Fails::

        kept = []
        fg.grad(lambda x: kept.append(x) or x**2)(1.0)
        np.sin(kept[0])

    Repaired: return the value (`has_aux=True`), or keep `fg.stop_gradient(x)`::

        fg.grad(lambda x: (x**2, fg.stop_gradient(x)), has_aux=True)(1.0)
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
    """A Graph breaks the grammar of the IR: ill-typed, undefined or doubly assigned.

    Fails: building a Graph by hand with a variable that no equation defines.

    Repaired: define every variable once, before its use, with the type that the primitive's rule
    gives.
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
    """An optional part of fungrad was used without the library that it stands on.

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

    Repaired: keep the values inside the domain, or choose a safe one by `np.where`::

        with fg.debug.trap():
            fg.grad(lambda x: np.sqrt(np.where(x > 0, x, 1.0)))(0.0)
    """


class SavedFileError(FungradError, ValueError):
    """A file is not one that `fg.save` wrote, is damaged, or needs what is not there.

    Fails::

        fg.load("weights.npz")

    Repaired: write it by `fg.save`; import the modules that declare its primitives and containers
    before::

        fg.save(fg.export(f)(x), "f.fungrad")
        fg.load("f.fungrad")(x)
    """

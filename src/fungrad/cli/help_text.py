"""The command line's help: what is shown below the options of each command. Knows nothing else."""

from __future__ import annotations

ARGUMENTS = """\
values of --arg:
  x=1.5                  a number; nan and inf need --allow-nan
  'x=[[1, 2], [3, 4]]'   a list becomes a float64 array; tuples and dicts stay trees of values
  x:float32=[1, 2]       with a dtype; n=3 stays a Python int
  x=@data.npy            the array in a file
  x=@data.npz:key        one array of several
  x=@data.csv            all columns, as a matrix; one column, as a vector
  x=@data.csv:a          the column with the header a (0, 1, ... where there is no header)
  x=@data.csv:a,b        some columns, in this order
arguments with defaults may be left out.
"""

EXITS = "exit codes: 0 done, 1 a check failed, 2 bad input (a message on stderr says why).\n"

MAIN_EPILOG = f"""\
examples:
  fungrad grad model.py:loss --arg 'w=[0.1, 0.2]' --arg x=@data.csv:a,b --check
  fungrad ir model.py:loss --arg 'w=[0.1, 0.2]' --arg x=@data.csv:a,b --grad --lines
  fungrad check model.py:loss --arg 'w=[0.1, 0.2]' --arg x=@data.npy --samples 50
  fungrad why model.py:loss --arg 'w=[0.1, 0.2]' --arg x=@data.csv:a,b
  fungrad bench model.py:loss --arg 'w=[0.1, 0.2]' --arg x=@data.csv:a,b --hand model.py:slope
  fungrad profile model.py:loss --arg 'w=[0.1, 0.2]' --arg x=@data.csv:a,b --grad
  fungrad demo

FILE.py:func is a Python function of yours, written with plain NumPy; it does not import fungrad.
`fungrad COMMAND --help` shows the options of a command.

{EXITS}"""

GRAD_EPILOG = f"""\
examples:
  fungrad grad model.py:loss --arg w=0.5 --arg x=@data.csv:height
  fungrad grad model.py:loss --arg w=0.5 --arg 'b=[1, 2]' --wrt w --wrt b --order 2 --check
  fungrad grad model.py:loss --arg w=0.5 --json | jq .derivative.w

--order 2 computes the Hessian, one block for each pair of arguments; higher orders likewise, up to
a million entries. Large arrays are summarised; --json prints them in full.

{ARGUMENTS}
{EXITS}"""

IR_EPILOG = f"""\
examples:
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy --grad --wrt w --lines
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy --grad --source gradient.py
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy --grad --html loss.html

The inputs of the graph are all real float arguments, or only those of --wrt; integers, strings and
others are fixed. While tracing only the shapes and dtypes of inputs are known.

--source prints the program that jit generates; with a file name it writes a module of plain NumPy
that does not need fungrad.

{ARGUMENTS}
{EXITS}"""

CHECK_EPILOG = f"""\
examples:
  fungrad check model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad check model.py:loss --arg w=0.5 --arg x=@data.npy --samples 100 --seed 1 --spread 0.1

Compares the gradient with central differences, and forward with reverse mode, at the given
arguments and at random points near them: Gaussian noise with standard deviation SPREAD * abs(value)
is added to each input. Runs in float64.

{ARGUMENTS}
{EXITS}"""

WHY_EPILOG = f"""\
examples:
  fungrad why model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad why model.py:loss --arg w=0.5 --arg x=@data.npy --wrt w --json

Names the line that makes a gradient zero (unused, stopped, behind argmax or a comparison, at a
kink, saturated) or NaN, forward or backward. Also prints how much work each stop_gradient saves.

{ARGUMENTS}
{EXITS}"""

EXPLAIN_EPILOG = f"""\
examples:
  fungrad explain GradientCutError
  fungrad explain

{EXITS}"""

DEMO_EPILOG = f"""\
examples:
  fungrad demo
  fungrad demo --json

Four uses of stop_gradient: stable softmax with tied maxima, EM on the Old Faithful data,
contrastive divergence, an adversarial example. Each is checked against a formula derived by hand.

{EXITS}"""

COST_EPILOG = f"""\
examples:
  fungrad cost model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad cost model.py:loss --arg w=0.5 --arg x=@data.npy --grad --json

Computed counts, not timings: operations, bytes read and written, peak memory, and the equations
that each compiler pass removed. A scan counts all its steps, a while loop a single iteration.
Operations without a cost rule are listed separately.

{ARGUMENTS}
{EXITS}"""

PROFILE_EPILOG = f"""\
examples:
  fungrad profile model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad profile model.py:loss --arg w=0.5 --arg x=@data.npy --grad --repetitions 20

Runs the compiled function equation by equation, and adds up the times by line of your code,
primitive, scope, and forward or backward pass. Also times the compiled function as a whole.

{ARGUMENTS}
{EXITS}"""

BENCH_EPILOG = f"""\
examples:
  fungrad bench model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad bench model.py:loss --arg w=0.5 --arg x=@data.npy --hand model.py:slope --json

Times the function, its gradient, both under jit, and with --hand a gradient that you wrote. That
takes the same arguments and returns the gradients for those of --wrt, in their order; if it
disagrees, the check fails. Times are medians of interleaved rounds; first calls have a column.

{ARGUMENTS}
{EXITS}"""

COMPLETION_EPILOG = f"""\
examples:
  eval "$(fungrad completion bash)"                       in ~/.bashrc
  fungrad completion zsh > ~/.zfunc/_fungrad              with ~/.zfunc in fpath
  fungrad completion fish > ~/.config/fish/completions/fungrad.fish

shtab (pip install 'fungrad[cli]') writes the script from this version's options. Pressing TAB does
not run fungrad.

{EXITS}"""

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
`fungrad COMMAND --help` tells more.

{EXITS}"""

GRAD_EPILOG = f"""\
examples:
  fungrad grad model.py:loss --arg w=0.5 --arg x=@data.csv:height
  fungrad grad model.py:loss --arg w=0.5 --arg 'b=[1, 2]' --wrt w --wrt b --order 2 --check
  fungrad grad model.py:loss --arg w=0.5 --json | jq .derivative.w

--order 2 is the Hessian, block by block for each pair of arguments; higher orders likewise, up to
a million entries. Large arrays are summarised; --json has them in full.

{ARGUMENTS}
{EXITS}"""

IR_EPILOG = f"""\
examples:
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy --grad --wrt w --lines
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy --grad --source gradient.py
  fungrad ir model.py:loss --arg w=0.5 --arg x=@data.npy --grad --html loss.html

All real float arguments are inputs of the graph, or those of --wrt only; what else there is
(integers, strings) is fixed. Only the shapes and dtypes of inputs are known while tracing.

--source prints the program that jit makes of it; with a file, it writes there a module of plain
NumPy that does not need fungrad.

{ARGUMENTS}
{EXITS}"""

CHECK_EPILOG = f"""\
examples:
  fungrad check model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad check model.py:loss --arg w=0.5 --arg x=@data.npy --samples 100 --seed 1 --spread 0.1

Compares the gradient with central differences, and forward with reverse mode, at the given
arguments and at random points near them: each number differentiated by is moved by SPREAD times its
size times a standard normal. Runs in float64.

{ARGUMENTS}
{EXITS}"""

WHY_EPILOG = f"""\
examples:
  fungrad why model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad why model.py:loss --arg w=0.5 --arg x=@data.npy --wrt w --json

Names the line that is to blame: what is not used, stopped, behind argmax or a comparison, at a
kink, saturated; where a NaN was born, forward or backward. Also says what each stop saves.

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

Stable softmax with tied maxima, EM on the Old Faithful data, contrastive divergence, and an
adversarial example: what stop_gradient is for, each gradient checked against a formula by hand.

{EXITS}"""

COST_EPILOG = f"""\
examples:
  fungrad cost model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad cost model.py:loss --arg w=0.5 --arg x=@data.npy --grad --json

Counted, not measured: operations, bytes read and written, bytes alive at once, and what each pass
of the optimiser removed. A scan counts its steps, a while one trip. Primitives without a rule are
listed.

{ARGUMENTS}
{EXITS}"""

PROFILE_EPILOG = f"""\
examples:
  fungrad profile model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad profile model.py:loss --arg w=0.5 --arg x=@data.npy --grad --repetitions 20

Runs the compiled function equation by equation, and adds the times up by your lines, by primitive
and scope, and by forward and backward pass. The compiled whole stands beside.

{ARGUMENTS}
{EXITS}"""

BENCH_EPILOG = f"""\
examples:
  fungrad bench model.py:loss --arg w=0.5 --arg x=@data.npy
  fungrad bench model.py:loss --arg w=0.5 --arg x=@data.npy --hand model.py:slope --json

The function, its gradient, both under jit, and with --hand a gradient of your own, which takes the
same arguments and returns the gradient by those of --wrt, in their order. Rounds are interleaved,
the median counts; what jit costs at its first call is beside. A gradient of yours that disagrees
is a failed check.

{ARGUMENTS}
{EXITS}"""

COMPLETION_EPILOG = f"""\
examples:
  eval "$(fungrad completion bash)"                       in ~/.bashrc
  fungrad completion zsh > ~/.zfunc/_fungrad              with ~/.zfunc in fpath
  fungrad completion fish > ~/.config/fish/completions/fungrad.fish

The script is made of this version's options by shtab (pip install 'fungrad[cli]'); it runs nothing
of fungrad when you press TAB.

{EXITS}"""

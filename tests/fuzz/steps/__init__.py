"""The makers of steps, a file for each kind; importing them fills generate.FAMILIES."""

from . import arrays as arrays
from . import contractions as contractions
from . import control as control
from . import elementwise as elementwise
from . import indexing as indexing
from . import matrices as matrices
from . import reductions as reductions

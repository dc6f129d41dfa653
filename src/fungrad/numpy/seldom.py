# ruff: noqa: F403 - every file lists its public names in __all__
"""Floor 8: the part of NumPy's namespace that few programs ask for, imported when one does.

What stands in `fungrad.numpy` itself is there from the start.
"""

from fungrad.numpy.calculus import *
from fungrad.numpy.editing import *
from fungrad.numpy.einstein import *
from fungrad.numpy.functional import *
from fungrad.numpy.histograms import *
from fungrad.numpy.inspection import *
from fungrad.numpy.nan_reductions import *
from fungrad.numpy.padding import *
from fungrad.numpy.polynomials import *
from fungrad.numpy.quantiles import *
from fungrad.numpy.sets import *
from fungrad.numpy.statistics import *

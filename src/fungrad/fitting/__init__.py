"""Fits: `minimize` a function of a tree, `curve_fit` a model to data.

The methods are SciPy's, with derivatives by fungrad. Results print as tables. Needs the extra
`scipy`.
"""

from fungrad.fitting.comparison import Comparison
from fungrad.fitting.curve_fit_result import CurveFit, Derived
from fungrad.fitting.least_squares import curve_fit
from fungrad.fitting.minimisation import Minimum, minimize
from fungrad.fitting.profile_likelihood import Profile

__all__ = ["Comparison", "CurveFit", "Derived", "Minimum", "Profile", "curve_fit", "minimize"]

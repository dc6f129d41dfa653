"""Random programs, run through every transform and compared with plain NumPy.

    python -m tests.fuzz --n 1000 --seed 7 --minimise

inputs.py makes arrays of every kind, program.py represents programs, generate.py and steps/ make
random ones, plain.py is control flow for plain NumPy. oracles.py computes results in two ways,
compare.py and noise.py decide whether they agree, minimise.py makes a disagreement small, and
campaign.py runs many programs.
"""

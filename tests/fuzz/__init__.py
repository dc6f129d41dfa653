"""Random programs, run through every transform and compared with plain NumPy.

    python -m tests.fuzz --n 1000 --seed 7 --minimise

inputs.py makes arrays of every kind, program.py says how a program looks, generate.py and steps/
make random ones, plain.py is control flow for NumPy alone, oracles.py says what has to agree,
compare.py and noise.py when two results do, minimise.py makes a disagreement small, campaign.py
runs many.
"""

"""Steps of the wave equation on n^3 nodes in f32 with Devito, order 8 in space: the fastest and the median of 40 runs of 4 steps.

    OMP_NUM_THREADS=2 DEVITO_ARCH=gcc python devito_wave.py [n] [variable] [layers]

`variable` has a velocity per node. `layers` has absorbing layers of 10 nodes on all sides, in the form of Devito's examples: a field
times the first time derivative at every node. The blocks of the loops are autotuned before the measurement.
"""

import statistics
import sys

import numpy as np
from devito import Eq, Function, Grid, Operator, TimeFunction, configuration, solve

configuration["language"] = "openmp"
configuration["log-level"] = "ERROR"

STEPS = 4

n = next((int(argument) for argument in sys.argv[1:] if argument.isdigit()), 256)
grid = Grid(shape=(n, n, n), extent=(n - 1.0,) * 3, dtype=np.float32)
u = TimeFunction(name="u", grid=grid, time_order=2, space_order=8)
slowness = 1.0
if "variable" in sys.argv:
    slowness = Function(name="m", grid=grid, space_order=0)
    slowness.data[:] = 1.0
equation = slowness * u.dt2 - u.laplace
if "layers" in sys.argv:
    damping = Function(name="damp", grid=grid, space_order=0)
    depth = np.maximum(0, 10 - np.minimum(np.arange(n), n - 1 - np.arange(n))) / 10.0
    damping.data[:] = 0.1 * (depth[:, None, None] + depth[None, :, None] + depth[None, None, :])
    equation = equation + damping * u.dt
operator = Operator(Eq(u.forward, solve(equation, u.forward)))
settings = {"time_m": 1, "time_M": STEPS, "dt": np.float32(0.4)}
operator.apply(autotune="aggressive", **settings)
blocks = {str(name): size for name, size in operator._state["autotuning"][-1]["tuned"].items()}
# The time in the generated C function, without the Python code around it.
seconds = [sum(entry.time for entry in operator.apply(**settings, **blocks).values()) for _ in range(40)]
rates = [n**3 * STEPS / 1e9 / time for time in seconds]
print(f"Devito {' '.join(sys.argv[1:])}: best {max(rates):.2f}, median {statistics.median(rates):.2f} Gpoint/s, {blocks}")

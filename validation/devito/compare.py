"""Compares the seismograms of layers.toml with Devito (https://www.devitoproject.org).

    orrery run layers.toml --out corrected
    orrery run layers.toml --out raw --set 'wave.time_dispersion="raw"'
    python compare.py corrected/seismograms.npy raw/seismograms.npy

The grid and the order in space are the same. Devito has the same step, and one of 1/12 of it, whose
error in time is 1/144. Prints the L2 norm of differences relative to that of Devito, per receiver.
"""

import os
import sys

os.environ["DEVITO_LOGGING"] = "ERROR"

import numpy as np
from devito import Eq, Function, Grid, Operator, SparseTimeFunction, TimeFunction, solve

N, H, DT, END, FREQUENCY = 601, 10.0, 1.9e-3, 1.6, 12.0
RECEIVERS = [(3000.0 + 400.0 * k, 3000.0) for k in range(1, 5)]


def devito_traces(substeps):
    steps = round(END / DT) * substeps
    dt = DT / substeps
    grid = Grid(shape=(N, N), extent=((N - 1) * H,) * 2, dtype=np.float64)
    u = TimeFunction(name="u", grid=grid, time_order=2, space_order=8)
    m = Function(name="m", grid=grid)
    m.data[:] = 1500.0**-2
    m.data[:, 330:] = 2500.0**-2
    q = (np.pi * FREQUENCY * (np.arange(steps + 1) * dt - 1.5 / FREQUENCY)) ** 2
    source = SparseTimeFunction(name="source", grid=grid, npoint=1, nt=steps + 1)
    source.coordinates.data[:] = (3000.0, 3000.0)
    source.data[:, 0] = (1 - 2 * q) * np.exp(-q) / H**2
    receivers = SparseTimeFunction(name="receivers", grid=grid, npoint=4, nt=steps + 1)
    receivers.coordinates.data[:] = RECEIVERS
    update = Eq(u.forward, solve(m * u.dt2 - u.laplace, u.forward))
    injection = source.inject(field=u.forward, expr=source * grid.stepping_dim.spacing**2 / m)
    Operator([update] + injection + receivers.interpolate(expr=u))(time=steps - 1, dt=dt)
    return np.array(receivers.data)[::substeps].T


references = {"the same step": devito_traces(1), "1/12 of the step": devito_traces(12)}
for path in sys.argv[1:]:
    traces = np.load(path)
    for name, reference in references.items():
        # The last 2.5 N^(1/3) corrected samples are less accurate, and Devito has one sample less.
        count = reference.shape[1] - int(2.5 * reference.shape[1] ** (1 / 3))
        difference = np.linalg.norm(traces[:, :count] - reference[:, :count], axis=1)
        error = difference / np.linalg.norm(reference[:, :count], axis=1)
        print(f"{path}, Devito with {name}:", " ".join(f"{e:.1e}" for e in error))

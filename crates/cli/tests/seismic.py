"""Compares conversions of Orrery with numpy and segyio.

The first argument is the command to write input files or to check outputs, the second one the
folder.
"""

import sys
from pathlib import Path

import numpy as np
import segyio

STEPS = 50
RECEIVERS = 4


def volume():
    z, y, x = np.meshgrid(np.arange(7), np.arange(5), np.arange(9), indexing="ij")
    return np.sin(x + 0.1 * y) + z


def traces(shot):
    t = np.arange(STEPS) * 0.002
    return np.array([np.sin(200 * t + shot + k) for k in range(RECEIVERS)], dtype=np.float32)


def write(folder):
    np.save(folder / "volume.npy", volume())
    np.save(folder / "fortran.npy", np.asfortranarray(volume().astype("f4")))
    spec = segyio.spec()
    spec.format = 5
    spec.samples = np.arange(STEPS) * 2.0
    spec.tracecount = 2 * RECEIVERS
    with segyio.create(folder / "line.sgy", spec) as file:
        file.bin[segyio.BinField.Interval] = 2000
        for shot in (1, 2):
            for k, trace in enumerate(traces(shot)):
                index = (shot - 1) * RECEIVERS + k
                file.header[index] = {
                    segyio.TraceField.FieldRecord: shot,
                    segyio.TraceField.SourceX: 100 * shot,
                    segyio.TraceField.GroupX: 10 * k,
                    segyio.TraceField.TRACE_SAMPLE_COUNT: STEPS,
                    segyio.TraceField.TRACE_SAMPLE_INTERVAL: 2000,
                }
                file.trace[index] = trace
    model = np.arange(1, 1 + 3 * 4 * 6, dtype=np.float32).reshape(3, 4, 6)
    segyio.tools.from_array3D(str(folder / "model.sgy"), model, dt=12500)


def check(folder):
    expected = volume()[1:6, :, 2:9][::2, ::2, ::2]
    part = np.load(folder / "part.npy")
    assert part.dtype == np.float64 and np.array_equal(part, expected), part.shape
    single = np.load(folder / "single.npy")
    assert single.dtype == np.float32 and np.array_equal(single, volume().astype("f4"))
    plane = np.load(folder / "plane.npy")
    assert np.array_equal(plane, volume()[:, 3, :]), plane.shape
    shot = np.load(folder / "shot.npy")
    assert shot.dtype == np.float32 and np.array_equal(shot, traces(2)), shot.shape
    table = np.genfromtxt(folder / "shot.csv", delimiter=",", skip_header=1)
    assert np.allclose(table[:, 0], 0.002 * np.arange(STEPS), rtol=1e-15, atol=0)
    assert np.array_equal(table[:, 1:].T.astype("f4"), traces(2))
    model = np.load(folder / "model.npy")
    # Inlines are along y, crosslines along x, and samples along z.
    expected = np.arange(1, 1 + 3 * 4 * 6).reshape(3, 4, 6).transpose(2, 0, 1)
    assert np.array_equal(model, expected), model.shape


{"write": write, "check": check}[sys.argv[1]](Path(sys.argv[2]))

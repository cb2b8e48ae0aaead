"""Writes the HDF5 files in this folder: valid for the library, but hostile. Run it in this folder (needs h5py)."""

import h5py
import numpy as np

POSITION = np.arange(9, dtype="f4").reshape(3, 3)


def start(name, n=3, masses=(0, 0, 0, 0, 0, 0), **options):
    file = h5py.File(name, "w", **options)
    header = file.create_group("Header")
    header.attrs["NumPart_ThisFile"] = np.array([0, n, 0, 0, 0, 0], "u8")
    header.attrs["MassTable"] = np.array(masses, "f8")
    return file, file.create_group("PartType1")


def fill(group, without=()):
    for name, column in ("Coordinates", POSITION), ("Velocities", -POSITION), ("Masses", np.ones(3)):
        if name not in without:
            group[name] = column


SHARED = (0, 1, 0, 0, 0, 0)

# The oldest file format version has no checksums, so that a test can change a byte.
file, group = start("plain.hdf5", libver="earliest")
fill(group)
group["ParticleIDs"] = np.arange(3, dtype="u8")
file.close()

file, group = start("soft_link_dataset.hdf5")
fill(group, without=["Masses"])
file["Elsewhere"] = np.ones(3)
group["Masses"] = h5py.SoftLink("/Elsewhere")
file.close()

file, group = start("soft_link_group.hdf5")
fill(group)
file.move("PartType1", "Elsewhere")
file["PartType1"] = h5py.SoftLink("/Elsewhere")
file.close()

# A chunk of 800 MB for three numbers.
file, group = start("oversized_chunk.hdf5")
fill(group, without=["Masses"])
group.create_dataset("Masses", (3,), "f8", chunks=(10**8,), maxshape=(None,), compression="gzip")
file.close()

# Chunks of one row each, none of which is written.
file, group = start("many_chunks.hdf5", 10**5, SHARED)
for name in "Coordinates", "Velocities":
    group.create_dataset(name, (10**5, 3), "f4", chunks=(1, 3), compression="gzip")
file.close()

# A chunk that is not written. Its values would read as zeros.
file, group = start("no_chunks.hdf5")
fill(group, without=["Masses"])
group.create_dataset("Masses", (3,), "f8", chunks=(3,))
file.close()

# Deflated many times.
file, group = start("many_filters.hdf5")
fill(group, without=["Masses"])
creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
creation.set_chunk((3,))
for _ in range(20):
    creation.set_filter(h5py.h5z.FILTER_DEFLATE, h5py.h5z.FLAG_MANDATORY, (9,))
space = h5py.h5s.create_simple((3,))
dataset = h5py.h5d.create(group.id, b"Masses", h5py.h5t.IEEE_F64LE, space, creation)
dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ones(3))
file.close()

# 20,000 bodies at rest at the same position, with the strongest compression of deflate.
file, group = start("dense.hdf5", 20_000, SHARED, libver=("v110", "v110"))
for name in "Coordinates", "Velocities":
    rest = np.zeros((20_000, 3), "f4")
    group.create_dataset(name, data=rest, chunks=rest.shape, compression="gzip", compression_opts=9)
file.close()

# Datasets with a shape but without written values.
file, group = start("never_written.hdf5", 2**40, SHARED)
for name in "Coordinates", "Velocities":
    group.create_dataset(name, (2**40, 3), "f4")
file.close()

# Datasets instead of groups, groups instead of datasets, and wrong shapes and types.
file, group = start("dataset_instead_of_group.hdf5")
del file["PartType1"]
file["PartType1"] = np.ones(3)
file.close()

file, group = start("group_instead_of_dataset.hdf5")
fill(group, without=["Masses"])
group.create_group("Masses")
file.close()

file, group = start("wrong_shape.hdf5")
fill(group, without=["Velocities"])
group["Velocities"] = np.ones((3, 2))
file.close()

file, group = start("texts.hdf5")
fill(group, without=["Masses"])
group["Masses"] = np.array([b"1", b"2", b"3"])
file.close()

# Sixty texts. A test changes them to one long text.
file, group = start("repeated_text.hdf5", 0, libver="earliest")
text = h5py.special_dtype(vlen=str)
run = file.create_group("Orrery")
run.attrs.create("Keys", ["x"] * 60, dtype=text)
file.close()

file, group = start("no_text.hdf5", 0)
file.create_group("Orrery").attrs.create("Keys", ["case"], dtype=text)
file.create_group("Orrery/Provenance")
file.close()

file, group = start("many_attributes.hdf5", 0, libver=("v110", "v110"))
for k in range(20):
    file["Header"].attrs[f"a{k}"] = k
file["Header"].attrs["UnitSystem"] = "cubits"
file.close()

"""Opens files written by orrery-io with common programs: h5py, yt, pynbody, numpy and, where it is installed, vtk.

Usage: python readers.py FOLDER. FOLDER contains expected.json with the expected values for each NAME, and the
files NAME.hdf5, NAME.npz and NAME.xyz. fields.json does the same for NAME.npy and NAME.vti. Exits with 1 and prints
the difference if a file differs.
"""

import json
import pathlib
import sys
import xml.etree.ElementTree

import h5py
import numpy as np
import pynbody
import yt

FAMILIES = {"gas": [0], "dm": [1, 2, 3], "star": [4], "bh": [5]}


def members(expected, kinds):
    """Returns the indices of the bodies of GADGET types `kinds`, type by type, in the order of an HDF5 file."""
    species = np.array(expected["species"])
    return np.concatenate([np.flatnonzero(species == kind) for kind in kinds])


def check_equal(got, expected, what):
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, expected {expected.shape}"
    assert np.array_equal(got, expected), f"{what}: {got}, expected {expected}"


def check_h5py(path, expected):
    with h5py.File(path) as file:
        header = file["Header"].attrs
        counts = [len(members(expected, [kind])) for kind in range(6)]
        check_equal(header["NumPart_ThisFile"], counts, "NumPart_ThisFile")
        check_equal(header["NumPart_Total"], counts, "NumPart_Total")
        assert header["NumPart_Total"].dtype == np.uint32
        assert header["Time"] == expected["time"] and np.ndim(header["Time"]) == 0
        assert header["NumFilesPerSnapshot"] == 1
        assert file["Units"].attrs["UnitSystem"] == expected["units"]
        for kind, count in enumerate(counts):
            assert (f"PartType{kind}" in file) == (count > 0)
            if count:
                group, k = file[f"PartType{kind}"], members(expected, [kind])
                check_equal(group["Coordinates"], np.array(expected["position"])[k], "Coordinates")
                check_equal(group["Velocities"], np.array(expected["velocity"])[k], "Velocities")
                check_equal(group["Masses"], np.array(expected["mass"])[k], "Masses")
                check_equal(group["ParticleIDs"], np.array(expected["id"], "u8")[k], "ParticleIDs")
                check_equal(group["Order"], k, "Order")
        keys = list(file["Orrery"].attrs["Keys"])
        found = [[key, file["Orrery/Provenance"].attrs[key]] for key in keys]
        assert found == expected["provenance"], found
        assert file["Orrery"].attrs["Step"] == expected["step"]


def check_yt(path, expected):
    # yt reads no units from GADGET files. It assumes kpc, 1e10 Msun and km/s unless unit_base is given.
    ds = yt.load(str(path))
    assert type(ds).__name__ == "GadgetHDF5Dataset", type(ds)
    assert float(ds.current_time.to("code_time")) == expected["time"], ds.current_time
    if expected["units"] == "galactic":
        check_yt_units(ds, expected)
    with h5py.File(path) as file:
        check_yt_units(yt.load(str(path), unit_base=dict(file["Units"].attrs)), expected)
    data = ds.all_data()
    for kind in sorted(set(expected["species"])):
        k = members(expected, [kind])
        # yt orders bodies along a space-filling curve.
        ids = np.array(expected["id"], "u8")[k]
        found = np.asarray(data[f"PartType{kind}", "ParticleIDs"]).astype("u8")
        check_equal(np.sort(found), np.sort(ids), "yt ParticleIDs")
        k, found = k[np.argsort(ids)], np.argsort(found)
        position = data[f"PartType{kind}", "Coordinates"].to("code_length").v[found]
        np.testing.assert_allclose(position, np.array(expected["position"])[k], rtol=1e-12, atol=1e-12)
        velocity = data[f"PartType{kind}", "Velocities"].to("code_velocity").v[found]
        np.testing.assert_allclose(velocity, np.array(expected["velocity"])[k], rtol=1e-12, atol=1e-12)
        mass = data[f"PartType{kind}", "Masses"].to("code_mass").v[found]
        np.testing.assert_allclose(mass, np.array(expected["mass"])[k], rtol=1e-12)


def check_yt_units(ds, expected):
    # Tolerances: the digits in which programs agree on the parsec and on the solar mass.
    check_close(ds.length_unit.to("cm"), expected["length_cm"], 1e-9)
    check_close(ds.mass_unit.to("g"), expected["mass_g"], 1e-3)
    check_close(ds.time_unit.to("s"), expected["time_s"], 1e-9)
    check_close(ds.current_time.to("s"), expected["time"] * expected["time_s"], 1e-9)


def check_close(got, expected, tolerance):
    assert abs(float(got) / expected - 1) < tolerance, f"{got}, expected {expected}"


def check_pynbody(path, expected):
    snapshot = pynbody.load(str(path))
    assert type(snapshot).__name__ == "GadgetHDFSnap", type(snapshot)
    assert len(snapshot) == len(expected["mass"])
    for family in snapshot.families():
        k, bodies = members(expected, FAMILIES[family.name]), snapshot[family]
        check_equal(bodies["pos"], np.array(expected["position"])[k], f"pynbody {family.name} pos")
        check_equal(bodies["vel"], np.array(expected["velocity"])[k], f"pynbody {family.name} vel")
        check_equal(bodies["mass"], np.array(expected["mass"])[k], f"pynbody {family.name} mass")
        check_equal(bodies["iord"], np.array(expected["id"])[k], f"pynbody {family.name} iord")
    check_close(snapshot["pos"].units.ratio("cm"), expected["length_cm"], 1e-12)
    check_close(snapshot["mass"].units.ratio("g"), expected["mass_g"], 1e-12)
    check_close(snapshot["vel"].units.ratio("cm s**-1"), expected["length_cm"] / expected["time_s"], 1e-12)
    check_close(snapshot.properties["time"].in_units("s"), expected["time"] * expected["time_s"], 1e-4)


def check_numpy(path, expected):
    with np.load(path, allow_pickle=False) as arrays:
        for name in "position", "velocity", "mass", "species":
            check_equal(arrays[name], expected[name], name)
        check_equal(arrays["id"], np.array(expected["id"], "u8"), "id")
        assert arrays["time"] == expected["time"] and arrays["time"].shape == ()
        assert arrays["step"] == expected["step"]
        assert str(arrays["units"]) == expected["units"]
        assert json.loads(bytes(arrays["provenance"])) == expected["provenance"]


def check_xyz(path, expected):
    lines = path.read_text().splitlines()
    assert int(lines[0]) == len(lines) - 2 == len(expected["mass"])
    rows = [line.split() for line in lines[2:]]
    check_equal([[float(word) for word in row[1:4]] for row in rows], expected["position"], "pos")
    check_equal([float(row[7]) for row in rows], expected["mass"], "mass")
    try:
        import ase.io
    except ImportError:
        return
    atoms = ase.io.read(path, format="extxyz")
    check_equal(atoms.positions, expected["position"], "ase positions")
    check_equal(atoms.arrays["vel"], expected["velocity"], "ase vel")
    check_equal(atoms.arrays["mass"], expected["mass"], "ase mass")
    assert atoms.info["Time"] == expected["time"]


def check_field_numpy(path, expected):
    values = np.load(path, allow_pickle=False)
    assert values.dtype == np.dtype(expected["type"]), values.dtype
    check_equal(values, np.array(expected["values"], expected["type"]), "numpy field")


def check_vti(path, expected):
    # The values follow the first underscore of the appended data, after their length.
    content = path.read_bytes()
    head, data = content.split(b'<AppendedData encoding="raw">', 1)
    root = xml.etree.ElementTree.fromstring(head + b"</VTKFile>")
    assert root.get("header_type") == "UInt64" and root.get("byte_order") == "LittleEndian"
    image = root.find("ImageData")
    ny, nx = np.shape(expected["values"])
    assert image.get("WholeExtent") == image.find("Piece").get("Extent") == f"0 {nx - 1} 0 {ny - 1} 0 0"
    check_equal([float(h) for h in image.get("Spacing").split()], [*expected["spacing"], 1.0], "spacing")
    assert image.find("Piece/PointData/DataArray").get("Name") == expected["name"]
    data = data[data.index(b"_") + 1 :]
    length = int.from_bytes(data[:8], "little")
    values = np.frombuffer(data[8 : 8 + length], expected["type"]).reshape(ny, nx)
    check_equal(values, np.array(expected["values"], expected["type"]), "vti values")
    assert data[8 + length :].split() == [b"</AppendedData>", b"</VTKFile>"]
    # vtk takes 565 MB, so it is not among the requirements. meshio does not read image data.
    try:
        from vtkmodules.util.numpy_support import vtk_to_numpy
        from vtkmodules.vtkIOXML import vtkXMLImageDataReader
    except ImportError:
        return
    check_vtk(vtkXMLImageDataReader(), vtk_to_numpy, path, expected)


def check_vtk(reader, vtk_to_numpy, path, expected):
    assert reader.CanReadFile(str(path))
    reader.SetFileName(str(path))
    reader.Update()
    image = reader.GetOutput()
    ny, nx = np.shape(expected["values"])
    assert image.GetDimensions() == (nx, ny, 1) and image.GetOrigin() == (0, 0, 0)
    assert image.GetSpacing() == (*expected["spacing"], 1)
    values = vtk_to_numpy(image.GetPointData().GetArray(expected["name"]))
    assert values.dtype == np.dtype(expected["type"]), values.dtype
    check_equal(values.reshape(ny, nx), np.array(expected["values"], expected["type"]), "vtk values")
    assert image.GetPointData().GetScalars().GetName() == expected["name"]
    assert vtk_to_numpy(image.GetFieldData().GetArray("TimeValue")) == [expected["time"]]


def check_fields(folder):
    for name, expected in json.loads((folder / "fields.json").read_text()).items():
        for check, suffix in [(check_field_numpy, ".npy"), (check_vti, ".vti")]:
            check(folder / (name + suffix), expected)
            print(f"{name}{suffix}: {check.__name__} agrees")


def main(folder):
    check_fields(folder)
    yt.set_log_level("error")
    cases = json.loads((folder / "expected.json").read_text())
    for name, expected in cases.items():
        for check, suffix in [
            (check_h5py, ".hdf5"),
            (check_yt, ".hdf5"),
            (check_pynbody, ".hdf5"),
            (check_numpy, ".npz"),
            (check_xyz, ".xyz"),
        ]:
            check(folder / (name + suffix), expected)
            print(f"{name}{suffix}: {check.__name__} agrees")


main(pathlib.Path(sys.argv[1]))

"""Opens files written by orrery-formats with common programs: h5py, yt, pynbody, numpy, segyio and, where they are
installed, vtk and obspy.

Usage: python readers.py FOLDER. FOLDER contains expected.json with the expected values for each NAME, and the
files NAME.hdf5, NAME.npz and NAME.xyz. fields.json does the same for NAME.npy and NAME.vti, and shots.json for
NAME.sgy and NAME.npy. Exits with 1 and prints the difference if a file differs. Also writes segyio-*.sgy, which the caller
reads.
"""

import json
import pathlib
import sys
import xml.etree.ElementTree

import h5py
import numpy as np
import pynbody
import segyio
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


def volume_shape(expected):
    """Returns the shape (nz, ny, nx). A plane has nz = 1."""
    shape = np.shape(expected["values"])
    return shape if len(shape) == 3 else (1, *shape)


def check_vti(path, expected):
    # The values follow the first underscore of the appended data, after their length.
    content = path.read_bytes()
    head, data = content.split(b'<AppendedData encoding="raw">', 1)
    root = xml.etree.ElementTree.fromstring(head + b"</VTKFile>")
    assert root.get("header_type") == "UInt64" and root.get("byte_order") == "LittleEndian"
    image = root.find("ImageData")
    nz, ny, nx = volume_shape(expected)
    assert image.get("WholeExtent") == image.find("Piece").get("Extent") == f"0 {nx - 1} 0 {ny - 1} 0 {nz - 1}"
    check_equal([float(h) for h in image.get("Spacing").split()], [*expected["spacing"], 1.0][:3], "spacing")
    assert image.find("Piece/PointData/DataArray").get("Name") == expected["name"]
    data = data[data.index(b"_") + 1 :]
    length = int.from_bytes(data[:8], "little")
    values = np.frombuffer(data[8 : 8 + length], expected["type"]).reshape(np.shape(expected["values"]))
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
    assert image.GetDimensions() == volume_shape(expected)[::-1] and image.GetOrigin() == (0, 0, 0)
    assert image.GetSpacing() == (*expected["spacing"], 1)[:3]
    values = vtk_to_numpy(image.GetPointData().GetArray(expected["name"]))
    assert values.dtype == np.dtype(expected["type"]), values.dtype
    expected_values = np.array(expected["values"], expected["type"])
    check_equal(values.reshape(expected_values.shape), expected_values, "vtk values")
    assert image.GetPointData().GetScalars().GetName() == expected["name"]
    assert vtk_to_numpy(image.GetFieldData().GetArray("TimeValue")) == [expected["time"]]


def check_fields(folder):
    for name, expected in json.loads((folder / "fields.json").read_text()).items():
        for check, suffix in [(check_field_numpy, ".npy"), (check_vti, ".vti")]:
            check(folder / (name + suffix), expected)
            print(f"{name}{suffix}: {check.__name__} agrees")


def scaled(header, key, scalar):
    """Returns a number of a trace header with its scalar applied. A negative scalar divides."""
    factor = header[scalar]
    return header[key] / -factor if factor < 0 else header[key] * factor


def check_segyio(path, expected):
    with segyio.open(str(path), ignore_geometry=True) as file:
        samples = np.array(expected["samples"], "f4")
        check_equal(file.trace.raw[:], samples, "segyio samples")
        assert file.bin[segyio.BinField.Format] == 5
        assert file.bin[segyio.BinField.Traces] == len(expected["receivers"])
        assert file.bin[segyio.BinField.SEGYRevision] == expected["revision"]
        assert file.bin[segyio.BinField.MeasurementSystem] == 1
        # segyio reads the interval in whole microseconds and does not know the exact one of rev 2.
        interval = round(1e6 * expected["dt"])
        assert file.bin[segyio.BinField.Interval] == segyio.tools.dt(file) == interval
        times = 1e3 * expected["start"] + np.arange(samples.shape[1]) * interval / 1e3
        np.testing.assert_allclose(file.samples, times, rtol=1e-12, atol=1e-9)
        lines = segyio.tools.wrap(file.text[0]).splitlines()
        assert len(lines) == 40 and lines[0].startswith("C 1 SEISMOGRAMS"), lines
        assert lines[14].rstrip() == "C15 CASE two-layer-shot" and "END TEXTUAL HEADER" in lines[39], lines
        for k, (header, receiver) in enumerate(zip(file.header, expected["receivers"])):
            check_trace_header(header, k, receiver, expected)


def check_trace_header(header, k, receiver, expected):
    field = segyio.TraceField
    source = expected["source"]
    found = [scaled(header, key, field.SourceGroupScalar) for key in (field.SourceX, field.SourceY)]
    found.append(scaled(header, field.SourceDepth, field.ElevationScalar))
    check_equal(found, source, "segyio source")
    found = [scaled(header, key, field.SourceGroupScalar) for key in (field.GroupX, field.GroupY)]
    found.append(0 - scaled(header, field.ReceiverGroupElevation, field.ElevationScalar))
    check_equal(found, receiver, "segyio receiver")
    offset = np.hypot(receiver[0] - source[0], receiver[1] - source[1])
    assert header[field.offset] == np.floor(offset + 0.5) * (-1 if receiver[0] < source[0] else 1)
    delay = scaled(header, field.DelayRecordingTime, field.ScalarTraceHeader)
    check_equal(delay, 1e3 * expected["start"], "segyio delay")
    assert header[field.TRACE_SEQUENCE_FILE] == header[field.TraceNumber] == k + 1
    assert header[field.FieldRecord] == header[field.EnergySourcePoint] == expected["shot"]
    samples = len(expected["samples"][0])
    # Only the extended field of the binary header has more than 16 bits.
    assert header[field.TRACE_SAMPLE_COUNT] == (samples if samples < 65536 else 0)


def check_obspy(path, expected):
    # obspy takes long to install, so it is not among the requirements. It does not read the extended fields of rev 2.
    try:
        from obspy.io.segy.segy import _read_segy
    except ImportError:
        return
    if len(expected["samples"][0]) > 65535:
        return
    file = _read_segy(str(path))
    check_equal([trace.data for trace in file.traces], np.array(expected["samples"], "f4"), "obspy samples")
    assert file.binary_file_header.sample_interval_in_microseconds == round(1e6 * expected["dt"])


def check_shots(folder):
    for name, expected in json.loads((folder / "shots.json").read_text()).items():
        check_segyio(folder / (name + ".sgy"), expected)
        check_obspy(folder / (name + ".sgy"), expected)
        found = np.load(folder / (name + ".npy"), allow_pickle=False)
        check_equal(found, np.array(expected["samples"], "f4"), "numpy seismogram")
        print(f"{name}.sgy, {name}.npy: check_shots agrees")


def write_segyio(path, format, endian, inlines):
    """Writes a model of 4 crosslines and 5 samples. The value is 1500 + 10 * trace + sample / 4."""
    spec = segyio.spec()
    spec.ilines, spec.xlines, spec.samples = np.arange(1, inlines + 1), np.arange(10, 14), np.arange(5) * 12.5
    spec.format, spec.endian, spec.sorting = format, endian, 2
    with segyio.create(str(path), spec) as file:
        for k in range(4 * inlines):
            inline, crossline = 1 + k // 4, 10 + k % 4
            file.header[k] = {
                segyio.TraceField.FieldRecord: 3,
                segyio.TraceField.CDP_X: 2500 * crossline,
                segyio.TraceField.CDP_Y: 5000 * inline,
                segyio.TraceField.SourceGroupScalar: -100,
                segyio.TraceField.INLINE_3D: inline,
                segyio.TraceField.CROSSLINE_3D: crossline,
            }
            file.trace[k] = (1500 + 10 * k + np.arange(5) / 4).astype("f4")


def main(folder):
    check_fields(folder)
    check_shots(folder)
    for name, format, endian in [("ibm", 1, "big"), ("ieee", 5, "big"), ("little", 5, "little")]:
        for inlines in 1, 3:
            write_segyio(folder / f"segyio-{name}-{inlines}.sgy", format, endian, inlines)
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

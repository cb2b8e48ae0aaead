"""Writes the image data in this folder with VTK, in all forms that its writer has. Run it in this folder (needs vtk).

Each file has 4 x 3 nodes from (2, 1.75) with a spacing of (0.5, 0.25), the time 0.3, and the arrays flux (3 components)
and T = k / 7 at node k. Files with 32-bit headers have T as Float32, files with 64-bit headers as Float64. Blocks of
32 bytes make several blocks per array in compressed files.
"""

import itertools

import numpy as np
from vtkmodules.util.numpy_support import numpy_to_vtk
from vtkmodules.vtkCommonCore import vtkDataArray, vtkDoubleArray
from vtkmodules.vtkCommonDataModel import vtkImageData
from vtkmodules.vtkIOXML import vtkXMLImageDataWriter


def array(name, values):
    copy = numpy_to_vtk(values, deep=True)
    copy.SetName(name)
    return copy


def image(kind):
    data = vtkImageData()
    data.SetExtent(2, 5, -1, 1, 0, 0)
    data.SetOrigin(1, 2, 3)
    data.SetSpacing(0.5, 0.25, 1)
    temperature = array("T", (np.arange(12) / 7).astype(kind))
    temperature.GetInformation().Set(vtkDataArray.UNITS_LABEL(), "K & more")
    data.GetPointData().AddArray(array("flux", np.arange(36, dtype="f4").reshape(12, 3)))
    data.GetPointData().SetScalars(temperature)
    time = vtkDoubleArray()
    time.SetName("TimeValue")
    time.InsertNextValue(0.3)
    data.GetFieldData().AddArray(time)
    return data


def write(name, mode, is_compressed, is_big_endian, header_bits):
    writer = vtkXMLImageDataWriter()
    writer.SetFileName(name + ".vti")
    if mode == "ascii":
        writer.SetDataModeToAscii()
    elif mode == "binary":
        writer.SetDataModeToBinary()
    else:
        writer.SetDataModeToAppended()
        writer.SetEncodeAppendedData(mode == "base64")
    if is_compressed:
        writer.SetCompressorTypeToZLib()
    else:
        writer.SetCompressorTypeToNone()
    if is_big_endian:
        writer.SetByteOrderToBigEndian()
    else:
        writer.SetByteOrderToLittleEndian()
    if header_bits == 64:
        writer.SetHeaderTypeToUInt64()
    else:
        writer.SetHeaderTypeToUInt32()
    writer.SetBlockSize(32)
    writer.SetInputData(image("f4" if header_bits == 32 else "f8"))
    writer.Write()


for bits in 32, 64:
    write(f"ascii-{bits}", "ascii", False, False, bits)
    for mode, compressed, big in itertools.product(["binary", "base64", "raw"], [False, True], [False, True]):
        write(f"{mode}{'-zlib' * compressed}{'-big' * big}-{bits}", mode, compressed, big, bits)

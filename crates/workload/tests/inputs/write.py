"""Writes the arrays in this folder, with NumPy 2 and ml_dtypes. The tests of `workload::inputs` read them."""

from pathlib import Path

import ml_dtypes
import numpy

HERE = Path(__file__).parent
TRACKS = HERE / "tracks"
TYPES = ["bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]


def main() -> None:
    counted = numpy.arange(6).reshape(3, 2)
    texts = numpy.array([["a"], ["\u00e9\u4e2d"], [""]])
    parts = TRACKS / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    numpy.savez(TRACKS / "plain.npz", A=counted.astype("f4"), B=texts)
    numpy.savez_compressed(TRACKS / "packed.npz", A=counted.astype(">f4"), B=numpy.char.encode(texts, "utf-8"))
    numpy.save(parts / "A.npy", numpy.asfortranarray(counted.astype("f4")))
    with (parts / "B.npy").open("wb") as file:
        numpy.lib.format.write_array(file, texts.astype(">U4"), version=(2, 0))
    (TRACKS / "notes.txt").write_text("no array\n")
    types = {name: numpy.array([[0, 1], [2, 3]]).astype(name) for name in TYPES}
    types["bf16"] = numpy.array([[0, 1], [2, 3]]).astype(ml_dtypes.bfloat16)
    numpy.savez_compressed(HERE / "types.npz", **types)
    numpy.save(HERE / "objects.npy", numpy.array([["a"], [None]], dtype=object))
    numpy.save(HERE / "line.npy", numpy.arange(3, dtype="i4"))


main()

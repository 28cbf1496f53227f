"""Gets the files of Silero VAD out of the wheel silero-vad, once.

The wheel is not installed, because the package needs torch and its files do not.
"""

import zipfile
from pathlib import Path

import downloads
from downloads import InstallError
from triton.install import once
from verifying import install as runtimes

SET = "silero"
VERSION = "6.2.3"
SPECIFIERS = [f"silero-vad=={VERSION}"]
FOLDER = f"silero-vad-{VERSION}"
# A step of a stream, and a whole stream at once.
STEP, WHOLE, LICENSE = "silero_vad.onnx", "silero_vad_16k_sequence.onnx", "LICENSE"
MEMBERS = {STEP: f"silero_vad/data/{STEP}", WHOLE: f"silero_vad/data/{WHOLE}", LICENSE: f"silero_vad-{VERSION}.dist-info/licenses/{LICENSE}"}


def is_here():
    """Whether the files were fetched before."""
    return (runtimes.HOME / FOLDER).is_dir()


def files():
    """The folder of the files STEP, WHOLE and LICENSE."""
    return once(FOLDER, fetch, runtimes.HOME)


def fetch(folder):
    wheels = downloads.pinned(SET)
    if not wheels:
        raise InstallError(f"wheels.txt pins no {SPECIFIERS[0]} for Python {downloads.PYTHON_VERSION}: run this with Python 3.11 or 3.12")
    with downloads.fetched(wheels, runtimes.HOME) as (wheel,):
        unpack(wheel, folder)


def unpack(wheel, folder):
    """Writes the members of a wheel into a folder, without their folders."""
    with zipfile.ZipFile(wheel) as archive:
        missing = [member for member in MEMBERS.values() if member not in archive.namelist()]
        if missing:
            raise InstallError(f"'{Path(wheel).name}' has no {downloads.listed(missing)}: is it {SPECIFIERS[0]}?")
        for name, member in MEMBERS.items():
            (folder / name).write_bytes(archive.read(member))

"""Compiles libraries/ for this processor, into the virtual environment whose interpreter runs this:

    build/peers/bin/python experiments/peers/build_libraries.py

MKL and oneDNN are packages of requirements.txt. ggml is compiled from the source that a Python package's source
distribution carries (libraries/source.txt). Needs a C++20 compiler and CMake. What is up to date is left alone; a
library that cannot be made is named and left out.
"""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from record import HERE, ROOT, fingerprint

SOURCES = HERE / "libraries"
GGML_OPTIONS = (
    "CMAKE_BUILD_TYPE=Release",
    "BUILD_SHARED_LIBS=OFF",
    "CMAKE_POSITION_INDEPENDENT_CODE=ON",
    "GGML_NATIVE=ON",
    "GGML_LLAMAFILE=ON",  # its own matrix product, as llama.cpp's build has it
    "GGML_BUILD_TESTS=OFF",
    "GGML_BUILD_EXAMPLES=OFF",
)
COMPILE = (
    *("c++", "-std=c++20", "-O3", "-march=native", "-fopenmp-simd"),
    *("-fPIC", "-shared", "-Wl,-z,defs"),
    # Not RUNPATH: libraries that these libraries need lie there too.
    "-Wl,--disable-new-dtags",
)


class Unmade(Exception):
    """Why a library is left out."""


def run(*command, **options):
    """Standard output, or Unmade with the last words of a command that fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    except OSError as error:
        raise Unmade(f"{words[0]}: {error.strerror}") from error
    if done.returncode:
        said = " / ".join((done.stderr or done.stdout).strip().splitlines()[-3:])
        raise Unmade(f"{Path(words[0]).name} ended with status {done.returncode}: {said}")
    return done.stdout


def archive_into(folder):
    """The source distribution, fetched by this interpreter's pip."""
    pinned = SOURCES / "source.txt"
    name = pinned.read_text(encoding="utf-8").splitlines()[-1].split("==")[0]
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps")
    run(*pip, "--no-binary", name, "--dest", folder, "--requirement", pinned)
    return next(folder.glob("*.tar.gz"))


def unpacked(archive, folder):
    """ggml's part of it."""
    with tarfile.open(archive) as tar:
        for member in tar:
            _, found, path = member.name.partition("/vendor/llama.cpp/ggml/")
            if found and member.isfile():
                to = folder / path
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(tar.extractfile(member).read())
    (folder / "ggml.pc.in").touch()  # asked for when configuring, and not in the distribution
    return folder


def ggml(home):
    """Flags for what includes and links it; compiled once for each pinned version."""
    build, source = home / "ggml", home / "ggml" / "source"
    made = build / "made"
    wanted = (SOURCES / "source.txt").read_text(encoding="utf-8") + " ".join(GGML_OPTIONS)
    if not made.exists() or made.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(build, ignore_errors=True)
        build.mkdir(parents=True)
        archive = archive_into(build)
        unpacked(archive, source)
        archive.unlink()
        options = [f"-D{option}" for option in GGML_OPTIONS]
        run("cmake", "-S", source, "-B", build / "build", *options)
        run("cmake", "--build", build / "build", "--target", "ggml", "--parallel")
        made.write_text(wanted, encoding="utf-8")
    libraries = [build / f"build/src/libggml{part}.a" for part in ("", "-cpu", "-base")]
    return ["-isystem", source / "include"], [*libraries, "-fopenmp", "-ldl", "-lpthread"]


def packaged(*libraries):
    """Flags of libraries that are packages of the environment, given as the linker's -l takes them."""
    folder = Path(sys.prefix) / "lib"
    return ["-isystem", Path(sys.prefix) / "include"], [
        f"-L{folder}",
        *(f"-l{library}" for library in libraries),
        f"-Wl,-rpath,{folder}",
    ]


# Name of what library_peer.py loads: (what it is made of, flags of its library).
PROGRAMS = {
    "ggml": (("ggml_block.cpp", "peer.cpp"), ggml),
    "mkl": (
        ("mkl_block.cpp", "dense_block.cpp", "peer.cpp"),
        lambda _home: packaged(
            ":libmkl_intel_lp64.so.3", ":libmkl_intel_thread.so.3", ":libmkl_core.so.3", "iomp5"
        ),
    ),
    "onednn": (
        ("onednn_block.cpp", "dense_block.cpp", "peer.cpp"),
        lambda _home: packaged("dnnl"),
    ),
}


def make(name, home):
    sources, flags_of = PROGRAMS[name]
    include, link = flags_of(home)
    paths = [SOURCES / source for source in sources]
    run(*COMPILE, f"-I{ROOT}", *include, *paths, "-o", home / f"{name}.so", *link)


def contents():
    """Of all that decides what is made."""
    files = [*sorted(SOURCES.iterdir()), HERE / "requirements.txt", Path(__file__)]
    return fingerprint(b"\0".join(file.read_bytes() for file in files))


def main(home=Path(sys.prefix) / "libraries"):
    """Names of the libraries that could not be made."""
    made, wanted = home / "made", contents()
    if made.exists() and made.read_text(encoding="utf-8") == wanted:
        return []
    home.mkdir(parents=True, exist_ok=True)
    missing = []
    for name in PROGRAMS:
        (home / f"{name}.so").unlink(missing_ok=True)
        try:
            make(name, home)
        except Unmade as why:
            print(f"{name} is left out: {why}", file=sys.stderr)
            missing.append(name)
    if not missing:
        made.write_text(wanted, encoding="utf-8")
    return missing


if __name__ == "__main__":
    if sys.prefix == sys.base_prefix:
        sys.exit("run this by the peers' own interpreter, such as build/peers/bin/python")
    sys.exit(1 if main() else 0)

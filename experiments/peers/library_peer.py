"""The dense block in a library of C or C++: what build_libraries.py made of libraries/, loaded into this process."""

import ctypes
import functools
import os
import sys
from pathlib import Path

import numpy as np

HOME = Path(sys.prefix) / "libraries"  # of the peers' virtual environment

_FLOATS = np.ctypeslib.ndpointer(np.float32, flags="C_CONTIGUOUS")
_SIGNATURES = {
    "peer_error": (ctypes.c_char_p, ()),
    "peer_version": (ctypes.c_char_p, ()),
    "peer_ways": (ctypes.c_char_p, (ctypes.c_char_p,)),
    "peer_make": (ctypes.c_void_p, (ctypes.c_int,) * 4 + (ctypes.c_char_p,) * 2 + (ctypes.c_int,)),
    "peer_set": (
        ctypes.c_int,
        (ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p, _FLOATS, ctypes.c_int64, ctypes.c_int64),
    ),
    "peer_step": (ctypes.c_int, (ctypes.c_void_p, _FLOATS, ctypes.c_int64, _FLOATS)),
    "peer_free": (None, (ctypes.c_void_p,)),
}


class Missing(Exception):
    """Why a library cannot be timed."""


class Refused(RuntimeError):
    """What the library said."""


class Library:
    """Stands for a peer's module in time_one.py: NAME, WAYS, Peer."""

    def __init__(self, name, dtype, home=HOME):
        path = home / f"{name}.so"
        if not path.exists():
            raise Missing(f"{path} is missing; experiments/peers/build_libraries.py makes it")
        # oneDNN's package runs on OpenCL's processor driver, whose own pointer to its place is not a wheel's.
        os.environ.setdefault("OCL_ICD_FILENAMES", str(home.parent / "lib" / "libintelocl.so"))
        try:
            functions = ctypes.CDLL(str(path))
        except OSError as error:
            raise Missing(f"{path} cannot be loaded: {error}") from error
        for function, (result, arguments) in _SIGNATURES.items():
            getattr(functions, function).restype = result
            getattr(functions, function).argtypes = arguments
        self.NAME = functions.peer_version().decode()
        self.WAYS = [way for way in functions.peer_ways(dtype.encode()).decode().split(",") if way]
        if not self.WAYS:
            raise Missing(f"{self.NAME} has no products of {dtype} weights")
        self.Peer = functools.partial(Peer, functions)


class Peer:
    """step(x, t) -> y for all blocks in a row, by as many threads as this process has processors."""

    def __init__(self, functions, shape, variant, way, dtype):
        if variant != "dense":
            raise SystemExit(f"libraries have no {variant}; use jax or pytorch")
        self.functions, self.handle = functions, None
        self.handle = functions.peer_make(
            shape.d_model,
            shape.n_heads,
            shape.d_ff_dense,
            shape.length,
            dtype.encode(),
            way.encode(),
            len(os.sched_getaffinity(0)),
        )
        if not self.handle:
            raise Refused(functions.peer_error().decode())
        self.weights = []  # of each block the names: the library has the values
        self.y = np.empty(shape.d_model, np.float32)

    def __del__(self):
        if self.handle:
            self.functions.peer_free(self.handle)

    def add_block(self, weights, state):
        """Takes the block's weights, emptying the given dictionary so that nothing is held twice."""
        names = list(weights)
        for name in names:
            self._set(name, weights.pop(name))
        for name, value in state.items():
            self._set(name, value)
        self.weights.append(names)

    def _set(self, name, value):
        value = np.ascontiguousarray(value, np.float32)
        cols = 1 if value.ndim == 1 else value.shape[-1]
        rows = value.size // cols
        self._must(
            self.functions.peer_set(
                self.handle, len(self.weights), name.encode(), value, rows, cols
            )
        )

    def step(self, x, t):
        self._must(
            self.functions.peer_step(self.handle, np.ascontiguousarray(x, np.float32), t, self.y)
        )
        return self.y.copy()

    def _must(self, status):
        if status:
            raise Refused(self.functions.peer_error().decode())

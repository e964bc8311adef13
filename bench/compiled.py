"""The C competitors, compiled where they are measured."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

SOURCES = Path(__file__).parent / "c"
OUT = Path(__file__).parent.parent / "out" / "bench-c"

# Without -ffast-math in the link step: it would make the whole process flush subnormal numbers.
OPTIMISED = ("-O3", "-march=native", "-fPIC", "-std=gnu11")
FAST_MATH = (*OPTIMISED, "-ffast-math")


class UnavailableError(RuntimeError):
    """The C code cannot be compiled or run on this machine."""


def cpu_description() -> str:
    """Model and features of the processor, where the system tells."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""
    lines = text.split("\n\n")[0].splitlines()
    return "\n".join(line for line in lines if line.startswith(("model name", "flags")))


@cache
def shared_library(source: str, flags: tuple[str, ...], libraries: tuple[str, ...] = ()) -> Path:
    """Compile a file of ``bench/c`` into a directory of ``out/bench-c``."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise UnavailableError("no C compiler: neither cc nor $CC is there")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    # One file may include another.
    code = "".join(path.read_text() for path in sorted(SOURCES.glob("*.c")))
    key = "\n".join((source, code, *flags, *libraries, version, cpu_description()))
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    folder = OUT / digest
    library = folder / f"{Path(source).stem}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as workplace:
            compiled, linked = f"{workplace}/code.o", f"{workplace}/code.so"
            _run(compiler, *flags, "-c", str(SOURCES / source), "-o", compiled)
            _run(compiler, "-shared", compiled, *libraries, "-o", linked)
            os.replace(linked, library)
    return library


def _run(*command: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise UnavailableError(f"{' '.join(command[:1])} failed: {result.stderr.strip()[-300:]}")


def function(library: Path, name: str, n_arrays: int) -> Callable[..., None]:
    """Wrap ``name(array, ..., n, q)``: C-contiguous arrays, the first of shape (n, q)."""
    call = getattr(ctypes.CDLL(str(library)), name)
    call.restype = None
    call.argtypes = [ctypes.c_void_p] * n_arrays + [ctypes.c_long] * 2

    def wrapper(*arrays: np.ndarray) -> None:
        call(*(array.ctypes.data for array in arrays), *arrays[0].shape)

    return wrapper


def _need_avx2() -> None:
    flags = cpu_description().split()
    if not {"avx2", "fma"} <= set(flags):
        raise UnavailableError("the processor has no AVX2 and FMA, or the system does not tell")


def plain_library() -> Path:
    """C as the compiler vectorises it, with the vector exp and log1p of glibc."""
    return shared_library("ranking_plain.c", FAST_MATH, ("-lmvec", "-lm"))


def tuned_library() -> Path:
    """C written with intrinsics."""
    _need_avx2()
    return shared_library("ranking_avx2.c", OPTIMISED)


def tuned_float32_library() -> Path:
    _need_avx2()
    return shared_library("ranking_avx2_f32.c", OPTIMISED)


def limits_library() -> Path:
    """Loops that measure what the processor and the memory can do."""
    _need_avx2()
    return shared_library("limits.c", OPTIMISED)

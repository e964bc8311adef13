"""What LLVM made of a kernel: listings of its machine code, and what to look for in them."""

from __future__ import annotations

import platform
import re

import numba
import pytest
from llvmlite import binding


def _has_vectors():
    features = binding.get_host_cpu_features() if not numba.config.DISABLE_JIT else {}
    on_x86 = platform.machine() in {"x86_64", "AMD64"}
    return on_x86 and features.get("avx2", False) and features.get("fma", False)


needs_vectors = pytest.mark.skipif(
    not _has_vectors(), reason="looks for AVX2 and FMA instructions in compiled kernels"
)

# Registers of 256 bits, or of 512 where LLVM prefers them.
VECTOR_DIVISION = r"\tvdivp[sd]\s[^\n]*[yz]mm"
VECTOR_FMA = r"\tvfn?m(?:add|sub)\d+p[sd]\s[^\n]*[yz]mm"
VECTOR_SUM = r"\tv(?:add|sub)p[sd]\s[^\n]*[yz]mm"


def listing(compiled, *arguments):
    """Machine code of a compiled function for these arguments."""
    # Code from the cache comes without a listing.
    fresh = type(compiled)(compiled.py_func, targetoptions=compiled.targetoptions)
    fresh(*arguments)
    (text,) = fresh.inspect_asm().values()
    return text


def blocks_with(pattern, text, at_least=1):
    """Number of basic blocks with so many such instructions: how many loops have them."""
    blocks = re.split(r"(?m)^\S+:", text)
    return sum(len(re.findall(pattern, block)) >= at_least for block in blocks)


def called_functions(text):
    """Names of the functions that are called, as far as they appear."""
    return set(re.findall(r"\t(?:callq?|jmpq?|movabsq)\s+\*?\$?([A-Za-z_]\w*)", text))

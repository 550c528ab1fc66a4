"""Compile loops over memory that is given by addresses. One call of a loop works on a whole list of arrays.

Rules of this file:

1. A loop is a plain function for numba. It is specialised by `kind`, a NumPy scalar type that stands for a dtype
   (`KINDS`); `_read` and `_write` convert an element to and from float64.
2. Every loop works on a range of *chunks* (65,536 elements of one array, or the rest of it) and writes one result for
   each chunk. The caller adds the results in order. So a result does not depend on the number of threads.
3. Pointers are offset before a loop and indices start at 0. An index that may be negative keeps LLVM from vectorising.
4. A loop asks for memory two pages ahead of what it reads (`_make_finder`), because a core does not do this by itself
   across pages. This takes a third off the time of large arrays. Between two requests it works on a *row*, whose length
   is a variable, or else LLVM would unroll the work on it instead of vectorising.
5. Sums of float64 in a plain loop may be reassociated, because the bound holds for every order. Compensated sums must
   not be reassociated, so they are compiled without any fast-math flag.
"""

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

#: The scalar type for each dtype in a loop's signature. NumPy has no bfloat16, but uint16 has the size of its bits.
KINDS = {"float16": np.float16, "bfloat16": np.uint16, "float32": np.float32, "float64": np.float64}
#: The number of independent sums in a compensated loop: four vectors of eight, so that additions need not wait for one
#: another.
LANES = 32
#: The number of elements in a row.
ROW = 256


def _find_cache() -> bool:
    """Return whether there is a folder to keep machine code in. Warn if there is none."""
    try:
        numba.njit(cache=True)(_find_cache)
    except RuntimeError:
        message = (
            "gradclip_spec found no folder to keep its compiled loops in; set NUMBA_CACHE_DIR to save some seconds"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return False
    return True


Decorator = Callable[[Callable[..., Any]], Any]
#: A function that returns a decorator, which compiles a function at its first call.
_compile_loop: Callable[..., Decorator] = functools.partial(numba.njit, nogil=True, cache=_find_cache())
#: The decorator of a function that returns a signature and a code generator. Loops can call such a function.
_emit: Decorator = intrinsic
#: The decorator that inlines a function into its callers.
_inline: Callable[[Callable[..., Any]], Any] = functools.partial(numba.njit, inline="always")

_FLOAT, _DOUBLE, _HALF = ir.FloatType(), ir.DoubleType(), ir.HalfType()
_I16, _I32, _BYTES = ir.IntType(16), ir.IntType(32), ir.IntType(8).as_pointer()
_PREFETCH = ir.FunctionType(ir.VoidType(), [_BYTES, _I32, _I32, _I32])
#: How elements of each kind are stored in memory.
_STORED = {types.float16: _HALF, types.uint16: _I16, types.float32: _FLOAT, types.float64: _DOUBLE}


def _make_pointer(builder: Any, kind: Any, address: Any, index: Any) -> Any:
    base = builder.inttoptr(address, _STORED[kind.dtype].as_pointer())
    return builder.gep(base, [index], inbounds=True)


@_emit
def _read(context: Any, kind: Any, address: Any, index: Any) -> Any:
    """Read an element as float64, exactly."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = builder.load(_make_pointer(builder, kind, *arguments[1:]))
        value.align = 1
        if kind.dtype == types.float64:
            return value
        if kind.dtype == types.uint16:
            bits = builder.shl(builder.zext(value, _I32), ir.Constant(_I32, 16))
            value = builder.bitcast(bits, _FLOAT)
        elif kind.dtype == types.float16:
            value = builder.fpext(value, _FLOAT)
        return builder.fpext(value, _DOUBLE)

    return types.float64(kind, types.int64, types.int64), generate


@_emit
def _write(context: Any, kind: Any, address: Any, index: Any, number: Any, factor: Any) -> Any:
    """Write a product as an element. For float16 and bfloat16, multiply in float32, which is twice as fast."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if kind.dtype in (types.float16, types.uint16):
            value = builder.fmul(*(builder.fptrunc(x, _FLOAT) for x in arguments[3:]))
        else:
            value = builder.fmul(*arguments[3:])
        if kind.dtype == types.float32:
            value = builder.fptrunc(value, _FLOAT)
        if kind.dtype == types.float16:
            value = builder.fptrunc(value, _HALF)
        elif kind.dtype == types.uint16:
            bits = builder.bitcast(value, _I32)
            last = builder.and_(builder.lshr(bits, ir.Constant(_I32, 16)), ir.Constant(_I32, 1))
            rounded = builder.add(bits, builder.add(last, ir.Constant(_I32, 0x7FFF)))
            quiet = builder.or_(bits, ir.Constant(_I32, 1 << 22))
            bits = builder.select(builder.fcmp_unordered("uno", value, value), quiet, rounded)
            value = builder.trunc(builder.lshr(bits, ir.Constant(_I32, 16)), _I16)
        builder.store(value, _make_pointer(builder, kind, *arguments[1:3]), align=1)
        return context.get_dummy_value()

    return types.void(kind, types.int64, types.int64, types.float64, types.float64), generate


@_emit
def _fma(context: Any, x: Any, y: Any, z: Any) -> Any:
    """Return `x * y + z`, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


def _make_finder(count: int) -> Any:
    """Return a function that returns the address of an element, and asks for `count` elements two pages behind it."""

    @_emit
    def find(context: Any, kind: Any, address: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.bitcast(_make_pointer(builder, kind, *arguments[1:]), _BYTES)
            ask = builder.module.declare_intrinsic("llvm.prefetch", [_BYTES], _PREFETCH)
            for line in range(0, count * kind.dtype.bitwidth // 8, 64):
                later = builder.gep(pointer, [ir.Constant(_I32, 8192 + line)])
                # To read, to keep in all caches, and not as code.
                builder.call(ask, [later, *(ir.Constant(_I32, number) for number in (0, 3, 1))])
            return builder.ptrtoint(pointer, ir.IntType(64))

        return types.int64(kind, types.int64, types.int64), generate

    return find


_find_row, _find_lanes = _make_finder(ROW), _make_finder(LANES)


@_compile_loop(fastmath={"reassoc", "contract", "nsz"})
def sum_plainly(kind: Any, starts: Any, sizes: Any, power: int, sums: Any, first: int, last: int) -> None:
    """Sum the squares (`power` 2) or magnitudes (1) of each chunk in float64, in any order.

    Squares of float16, bfloat16 and float32 are exact in float64, and no term is negative. A sum of n terms has a
    relative error of at most `(n - 1) * 2**-53`, whatever the order (Higham, Accuracy and Stability, section 4.2). For
    a chunk, this is less than `2**-37`.
    """
    for chunk in range(first, last):
        address, size, total = starts[chunk], sizes[chunk], 0.0
        for begin in range(0, size, ROW):
            row = _find_row(kind, address, begin)
            for index in range(min(ROW, size - begin)):
                x = _read(kind, row, index)
                total += x * x if power == 2 else abs(x)
        sums[chunk] = total


@_compile_loop()
def sum_compensated(
    kind: Any, starts: Any, sizes: Any, power: int, factor: float, sums: Any, rests: Any, first: int, last: int
) -> None:
    """Sum the squares or magnitudes of the elements times a power of two. `sums + rests` is the sum of each chunk.

    TwoProduct and TwoSum (Ogita, Rump, Oishi, Accurate Sum and Dot Product, 2005, algorithm Dot2) give every rounding
    error exactly, barring underflow. The errors are added up in float64. With n terms in a lane, the relative error of
    the result is at most `n**2 * 2**-106` (their theorem 5.5 without the last rounding, as no term is negative). With
    2,048 terms in each of 32 lanes, it is less than `2**-82`.
    """
    high, low = np.zeros(LANES), np.zeros(LANES)
    for chunk in range(first, last):
        address, size = starts[chunk], sizes[chunk]
        high[:] = 0.0
        low[:] = 0.0
        whole = size - size % LANES
        for begin in range(0, whole, LANES):
            row = _find_lanes(kind, address, begin)
            # The compiler knows this number, so it unrolls the loop.
            for lane in range(LANES):
                x = _read(kind, row, lane) * factor
                high[lane], low[lane] = _add(high[lane], low[lane], x, power)
        for lane in range(size - whole):
            x = _read(kind, address, whole + lane) * factor
            high[lane], low[lane] = _add(high[lane], low[lane], x, power)
        total, rest = 0.0, 0.0
        for lane in range(LANES):
            total, rest = _add(total, rest + low[lane], high[lane], 1)
        sums[chunk], rests[chunk] = total, rest


@_inline
def _add(total: float, rest: float, x: float, power: int) -> tuple[float, float]:
    """Add the square or the magnitude of a number to a sum, and the rounding errors to the rest."""
    term = x * x if power == 2 else abs(x)
    error = _fma(x, x, -term) if power == 2 else 0.0
    result = total + term
    virtual = result - total
    return result, rest + (((total - (result - virtual)) + (term - virtual)) + error)


@_compile_loop()
def find_largest(kind: Any, starts: Any, sizes: Any, results: Any, first: int, last: int) -> None:
    """Find the largest magnitude of each chunk, or NaN if an element is NaN. Write its bits as a float64.

    The bits of magnitudes are ordered like the magnitudes, and those of NaN come last.
    """
    for chunk in range(first, last):
        address, found = starts[chunk], 0
        for begin in range(0, sizes[chunk], ROW):
            row = _find_row(kind, address, begin)
            for index in range(min(ROW, sizes[chunk] - begin)):
                found = max(found, int(np.float64(abs(_read(kind, row, index))).view(np.int64)))
        results[chunk] = found


@_compile_loop()
def scale(kind: Any, starts: Any, sizes: Any, targets: Any, factors: Any, owners: Any, first: int, last: int) -> None:
    """Write the elements of each chunk, times the factor `(high + low) * power` of its owner, to its target.

    The product of a float32 with `high` is computed in float64, and then rounded. In addition to half an ulp, the
    relative error is `2**-53`. For float16 and bfloat16, `high` and the product are rounded to float32, and the
    relative error is `2**-23`. If float32 cannot hold `high`, the product is computed in float64 first. For float64,
    `high + low` is the factor with a relative error of `2**-106`, and the product of an element with both is rounded
    once. The two small terms of that product are multiples of `2**-1074`, and each may be wrong by half of it. So a
    result below `2**-1015` may have a larger error, of up to 1 ulp.
    """
    for chunk in range(first, last):
        high, low, power = factors[owners[chunk]]
        for begin in range(0, sizes[chunk], ROW):
            source = _find_row(kind, starts[chunk], begin)
            count = min(ROW, sizes[chunk] - begin)
            if starts[chunk] == targets[chunk]:
                # In this branch the compiler knows that source and target are the same, so it need not handle partial
                # overlap.
                _scale(kind, source, source, count, high, low, power)
            else:
                _scale(kind, source, _find_row(kind, targets[chunk], begin), count, high, low, power)


@_inline
def _scale(kind: Any, source: int, target: int, size: int, high: float, low: float, power: float) -> None:
    # Below its smallest normal number, float32 has fewer bits.
    if low == 0.0 and power == 1.0 and high >= 2.0**-126:
        for index in range(size):
            _write(kind, target, index, _read(kind, source, index), high)
        return
    for index in range(size):
        x = _read(kind, source, index)
        product = x * high
        rest = _fma(x, high, -product) + x * low
        # If the product is infinite, the rest is NaN.
        y = product + rest if abs(product) < math.inf else product
        _write(kind, target, index, y, power)

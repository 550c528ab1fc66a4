"""Define the passes of `fused` over CuPy arrays, as the kernels in `passes.cu`, which CuPy compiles."""

import contextlib
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from gradclip_spec.kernels.fused import CHUNK, FusedLoops

Array = Any
#: The number of threads of a block, which is a program of a kernel.
THREADS = 256
#: The number of integers that a kernel gets as one argument. All arguments of a kernel have at most 4,096 bytes.
PACKET = 500

SOURCE = Path(__file__).with_name("passes.cu")
#: The constants of the source.
DEFINED = {"CHUNK": CHUNK, "THREADS": THREADS, "PACKET": PACKET}


@functools.cache
def _load_kernel(name: str, dtype: str) -> Any:
    options = [f"-D{key}={value}" for key, value in DEFINED.items()]
    options += ["-DHALF"] if dtype == "float16" else []
    # AMD's compiler has no PTX.
    options += ["-DPLAIN"] if cupy.cuda.runtime.is_hip else []
    return cupy.RawModule(code=SOURCE.read_text(encoding="utf-8"), options=tuple(options)).get_function(name)


class CudaLoops(FusedLoops):
    """The passes over CuPy arrays."""

    def list_sizes(self, arrays: Sequence[Array]) -> list[int]:
        return [x.size for x in arrays]

    def list_addresses(self, arrays: Sequence[Array]) -> list[int]:
        return [x.data.ptr for x in arrays]

    def find_device(self, array: Array) -> Any:
        """Return the number of an array's device, because CuPy's devices cannot be hashed."""
        return int(array.device.id)

    def allocate(self, device: Any, shape: tuple[int, ...], dtype: str) -> Array:
        with _use(device):
            return cupy.empty(shape, dtype)

    def is_recording(self, device: Any) -> bool:
        """Return whether a CUDA graph records what is launched now. The default stream cannot be recorded."""
        del device
        stream = cupy.cuda.get_current_stream()
        return bool(stream.ptr) and bool(stream.is_capturing())

    def send(self, device: Any, numbers: np.ndarray[Any, Any]) -> Array:
        """Return integers as an array on a device. They are arguments of kernels, which a graph keeps."""
        size = -(-numbers.nbytes // 8)
        whole = np.zeros(-(-size // PACKET) * PACKET, np.int64)
        whole.view(numbers.dtype)[: numbers.size] = numbers
        target = self.allocate(device, (size,), "int64")
        packet = np.dtype([("integers", np.int64, (PACKET,))])
        for start in range(0, size, PACKET):
            count = min(PACKET, size - start)
            part = whole[start : start + PACKET].view(packet)
            self._run("store", device, 1, "float32", (part, target[start:], count))
        return target

    def widen(self, array: Array) -> Array:
        """Return an array that lies in one piece as float64, row by row."""
        target = cupy.empty(array.shape, "float64")
        return self._copy("copy_to_float64", cupy.ascontiguousarray(array), target, str(array.dtype))

    def narrow(self, number: Array) -> Array:
        """Return a float64 number as float32."""
        return self._copy("copy_from_float64", number, cupy.empty(number.shape, "float32"), "float32")

    def launch(self, kernel: str, device: Any, programs: int, dtype: str | None, arguments: Sequence[Any]) -> None:
        given = list(arguments)
        if dtype is not None:
            # The last argument says whether addresses are aligned, which these kernels do not use.
            given[-1] = isinstance(given[0], int)
            places = (0,) if kernel == "sum_squares" else (0, 1)
            for place in places:
                given[place] = np.uint64(given[place] if given[-1] else given[place].data.ptr)
        given = [int(each) if isinstance(each, bool) else each for each in given]
        self._run(kernel, device, programs, dtype or "float32", given)

    def _copy(self, kernel: str, source: Array, target: Array, dtype: str) -> Array:
        if source.size:
            programs = -(-source.size // THREADS)
            self._run(kernel, self.find_device(source), programs, dtype, (source, target, int(source.size)))
        return target

    def _run(self, kernel: str, device: Any, programs: int, dtype: str, arguments: Sequence[Any]) -> None:
        with _use(device):
            _load_kernel(kernel, dtype)((programs,), (THREADS,), tuple(arguments))


def _use(device: int) -> contextlib.AbstractContextManager[Any]:
    current = cupy.cuda.runtime.getDevice() == device
    return contextlib.nullcontext() if current else cupy.cuda.Device(device)

"""Send float64 bytes and declare them float32."""

from dataclasses import replace

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Array, Call, Reply


class Fake(OneBadCall):
    """Send float64 bytes and declare them float32."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Send float64 bytes and declare them float32."""
        arrays = [array for array in right.gradients if array is not None]
        wide = [array.numpy().astype("<f8").tobytes() for array in arrays]
        lies = [Array(array.dtype, array.shape, data) for array, data in zip(arrays, wide, strict=True)]
        return replace(right, gradients=tuple(lies))

"""Answer one call with a reply or with what was raised, and limit the size of the answer by that of the call."""

from __future__ import annotations

import traceback
from typing import Any, Callable, Mapping

from . import wire
from .contract import BadReply, Call, FrameworkRaised, Reply, Unsupported, read_text
from .limits import LINE, NAME, shorten

#: The limit is proportional to the size of the call. An answer holds the results and the inputs. The results may have
#: another dtype: complex256, the widest, takes 16 times as many bytes as float16. A fixed allowance covers empty
#: gradients and texts.
BYTES_PER_BYTE, FREE_BYTES = 24, 4 << 20


def answer_by(make_reply: Callable[[Call], Reply], message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to one call, with the reply that a function makes."""
    number = message["number"]
    try:
        call = wire.decode_call(message)
        return wire.encode_reply(make_reply(call), number, call)
    except Unsupported as error:
        return {"message": "unsupported", "number": number, "text": read_text(error), "kind": error.kind}
    except FrameworkRaised as error:
        return {
            "message": "raised",
            "number": number,
            "kind": error.kind[: NAME.number],
            "text": shorten(error.text),
            "inputs": wire.encode_arrays(error.inputs),
            "disturbed": [shorten(text) for text in error.disturbed],
        }
    except MemoryError:
        raise
    except BadReply as error:
        return {"message": "mistake", "number": number, "text": read_text(error)}
    except Exception as error:  # noqa: BLE001 - an adapter may raise anything, and the suite must be told
        # A finding shows the beginning of a long text only, and a traceback ends with what was raised.
        text = f"{type(error).__name__}: {read_text(error)}\n{traceback.format_exc()}"
        return {"message": "mistake", "number": number, "text": shorten(text)}


def count_answer_bytes(call: Call) -> int:
    """Return the number of bytes that all arrays of an answer to a call may take together."""
    total = 0
    for gradient in call.gradients:
        if gradient.array is None:
            continue
        size = len(gradient.array.data)
        if gradient.rows and gradient.height:
            # A sparse gradient may come back dense.
            size = size // len(gradient.rows) * max(gradient.height, len(gradient.rows))
        total += size
    return FREE_BYTES + BYTES_PER_BYTE * total


def count_answer_line_bytes(call: Call) -> int:
    """Return the number of bytes that the line of an answer may take, including base64, names and texts."""
    return min(LINE.number, 2 * count_answer_bytes(call) + FREE_BYTES)

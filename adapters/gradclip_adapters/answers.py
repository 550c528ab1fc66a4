"""Answer one call: with the reply that a function makes, or with what it raised."""

from __future__ import annotations

import traceback
from typing import Any, Callable, Mapping

from . import wire
from .contract import BadReply, Call, FrameworkRaised, Reply, Unsupported, read_text
from .limits import NAME, shorten

__all__ = ["answer_by"]


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

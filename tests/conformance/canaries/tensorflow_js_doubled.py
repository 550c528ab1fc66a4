"""Double the results of the clip of TensorFlow.js. Node loads the replacement before the adapter."""

from __future__ import annotations

import os
from pathlib import Path

from gradclip_adapters.frameworks.tensorflow_js import TensorFlowJSAdapter

os.environ["NODE_OPTIONS"] = '--require "{}"'.format(Path(__file__).with_suffix(".js").as_posix())

adapter = TensorFlowJSAdapter()

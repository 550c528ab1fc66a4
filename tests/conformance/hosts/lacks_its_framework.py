"""Import a framework that does not exist."""

import no_such_framework

adapter = no_such_framework.Adapter()

"""Needs a framework that nobody has."""

import no_such_framework

adapter = no_such_framework.Adapter()

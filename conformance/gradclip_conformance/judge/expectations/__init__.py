"""Hold the expectations of cases: one class each, with its calls, verdict, description and script."""

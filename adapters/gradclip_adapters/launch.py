"""Start the host in a Python that does not have this package installed: `python launch.py TARGET`.

A framework's own environment has NumPy and the framework, and putting this package's folder on its path would put
everything that lies beside it there too, built for another Python. So two packages alone are made importable, from
where they lie.
"""

import sys

# A script's folder comes first on the path; here it would hide `torch` behind our module of that name.
sys.path[0] = ""

import importlib.util  # noqa: E402
import os  # noqa: E402


class _Neighbours:
    """Finds `gradclip_adapters` and, for the reference, `gradclip_spec`, and nothing else."""

    def __init__(self, folders):  # type: ignore[no-untyped-def]
        self.folders = folders

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        folder = self.folders.get(name)
        if folder is None:
            return None
        return importlib.util.spec_from_file_location(
            name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    folders = {"gradclip_adapters": here}
    # Installed, the packages lie side by side; in a checkout, the reference lies at the top.
    for spec in (os.path.join(here, "..", "gradclip_spec"), os.path.join(here, "..", "..", "gradclip_spec")):
        if os.path.isdir(spec):
            folders["gradclip_spec"] = os.path.abspath(spec)
            break
    sys.meta_path.insert(0, _Neighbours(folders))  # type: ignore[no-untyped-call]
    from gradclip_adapters.host import main

    sys.exit(main())

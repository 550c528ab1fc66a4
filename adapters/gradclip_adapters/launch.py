"""Start the host in a Python that does not have this package installed: `python launch.py TARGET`.

A framework's own environment has NumPy and the framework. The folder that holds this package must not be on the path of
that Python: the folder may hold other packages, which are built for another Python. So a finder makes only two packages
of the folder importable.
"""

import sys

# Python puts a script's folder first on the path. Here, our module `torch` would hide the framework.
sys.path[0] = ""

import importlib.util  # noqa: E402
from pathlib import Path  # noqa: E402


class _Neighbours:
    """An import finder that finds only `gradclip_adapters` and, for the reference, `gradclip_spec`."""

    def __init__(self, folders):  # type: ignore[no-untyped-def]
        self.folders = folders

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        del path, target
        folder = self.folders.get(name)
        if folder is None:
            return None
        return importlib.util.spec_from_file_location(
            name, str(folder / "__init__.py"), submodule_search_locations=[str(folder)]
        )


if __name__ == "__main__":
    here = Path(__file__).absolute().parent
    folders = {"gradclip_adapters": here}
    # Installed packages lie side by side. In a checkout, `gradclip_spec` lies in the root folder.
    for folder in (here.parent, here.parent.parent):
        if (folder / "gradclip_spec").is_dir():
            folders["gradclip_spec"] = folder / "gradclip_spec"
            break
    sys.meta_path.insert(0, _Neighbours(folders))  # type: ignore[no-untyped-call]
    if sys.argv[1:2] == ["--process"]:
        from gradclip_adapters.processes import serve

        sys.exit(serve(sys.argv[2]))
    from gradclip_adapters.host import main

    sys.exit(main())

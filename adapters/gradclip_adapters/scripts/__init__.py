"""Call each framework as its users do: the functions whose source stands in scripts.

Each module serves the adapter of its name, and is written so that its lines can stand in a script that has only the
framework and NumPy. `gradclip_conformance.repro.source` reads the modules without importing them. A module has

- `make(values, dtype)`, which makes a gradient, and `make_strided(tensor)` and so on for other layouts in memory;
- `read(tensor)`, which returns an array of NumPy, if NumPy cannot read the framework's tensors itself, or
  `read_bfloat16(tensor)`, if it can, but has no bfloat16;
- functions from a list of gradients, and the options of a call by their names, to the results and the norm or None. The
  result of a missing gradient is None, or for an optimizer, whose parameter stays as it was, a zero: `np.zeros(1)`;
- `ENTRY_POINTS`, which says for each entry point of the adapter which function is called, and with what. `COMPILED`
  names the calls of the same entry points inside the framework's compiler. A module may have `COMPILER` instead, which
  says for functions in `ENTRY_POINTS` which functions take their places there.

A function with a parameter `form` passes `form(parameters)`, which is an iterator or a single parameter if the call
passes one. A module `NAME_MORE` has other entry points of the adapter `NAME`. A module with the name of an adapter's
module serves all adapters of that module.
"""

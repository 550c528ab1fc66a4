"""Make the parts of the manual that come from data, and check the links of the built pages."""

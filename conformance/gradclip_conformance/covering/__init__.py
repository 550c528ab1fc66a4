"""The covering design: rows that meet every combination of two or three levels of the axes on which answers depend."""

"""A kernel and all that it uses as the text of one module, for another process."""

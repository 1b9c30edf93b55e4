"""Figures, tables and widgets: how things look. Matplotlib, rich and ipywidgets are imported where they are used."""

"""Figures, all in one style (`style`), which defines each controller's colour once. Matplotlib is loaded on first use.

`timeline`, `distributions` and `overview` draw Runs, `profile` draws Profiles; `style.save` writes a figure. Every plot
function takes its data first, options by keyword, and `ax`: the axes to draw into (as many as its docstring says), or
None for a new figure. It returns the Figure.
"""

"""Figures, all in one style (`style`), which defines each controller's colour once. Matplotlib is loaded on first use.

`timeline`, `distributions` and `overview` draw Runs, `profile` draws Profiles; `style.save` writes a figure.
"""

"""Figures: one style, each controller's colour defined once (`style`), Matplotlib loaded only where it is used.

`timeline`, `distributions` and `overview` draw Runs, `profile` draws Profiles; `style.save` writes a figure.
"""

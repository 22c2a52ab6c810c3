"""Estimators on scikit-learn's contract, one file each; `bentpipe.predict.registry` lists them.

Each has ``fit(X, y)``, ``predict(X)`` for the median and ``predict_quantiles(X)`` for the levels of
`bentpipe.predict.levels`.
"""

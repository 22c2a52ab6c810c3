"""Tables as pandas DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError

if TYPE_CHECKING:
    import polars as pl


def to_pandas(frame: pl.DataFrame) -> Any:  # noqa: ANN401 - a pandas.DataFrame, which is an extra
    """Return a table as a pandas DataFrame, column by column, without pyarrow.

    A null is NaN in a column of numbers, None in others. A list is a list.

    Raises:
        UserError: pandas, the extra ``bentpipe[pandas]``, is not installed.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise UserError(f"to_pandas needs {error.name}: pip install 'bentpipe[pandas]'") from error
    columns = {column.name: column.to_list() if column.dtype.is_nested() else column.to_numpy() for column in frame}
    return pd.DataFrame(columns)

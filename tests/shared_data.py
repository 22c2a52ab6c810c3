"""Real measurements that tests may use: beside the checkout in `shared/data`, or where BENTPIPE_DATA says.

A fresh clone has none of them: such a test is skipped with the reason, or fails where BENTPIPE_REQUIRE has `data`.
"""

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("BENTPIPE_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def require_data(*names):
    """The paths of files or folders below `DATA`; one path for one name. Without names `DATA` itself."""
    paths = [DATA / name for name in names] or [DATA]
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        reason = f"no measurements at {', '.join(missing)} (BENTPIPE_DATA names another folder)"
        if "data" in os.environ.get("BENTPIPE_REQUIRE", ""):
            pytest.fail(reason)
        pytest.skip(reason)
    return paths[0] if len(paths) == 1 else paths

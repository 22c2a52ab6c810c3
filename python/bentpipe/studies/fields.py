"""Types of the fields that several studies' TOML files have."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from bentpipe.records import Items, Name, Text
from bentpipe.studies.counterfactual import CounterfactualEntry
from bentpipe.studies.orders import OrderEntry
from bentpipe.studies.scenario import Hour

Texts = Annotated[Items[Text], Field(min_length=1)]
Hours = Annotated[Items[Hour], Field(min_length=1)]
PathText = Annotated[str, Field(pattern=r"^\S+ \S+ \S+ [0-9]+$")]
"""A path as ``SITE TO START SEED``."""
Counterfactuals = Annotated[dict[Name, CounterfactualEntry], Field(min_length=1)]
Orders = Annotated[dict[Name, OrderEntry], Field(min_length=1)]
FieldRunS = Annotated[float, Field(ge=20, le=3600)]
WarmupS = Annotated[float, Field(ge=0, le=600)]
PingS = Annotated[float, Field(ge=10, le=86_400)]
TestS = Annotated[float, Field(ge=10, le=6000)]

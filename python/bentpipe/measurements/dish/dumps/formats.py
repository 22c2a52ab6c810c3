"""Formats of terminal dumps by other tools, each with its detector and reader."""

from __future__ import annotations

from bentpipe.measurements.dish.dumps import grpcurl, tables
from bentpipe.measurements.readers.formats import Format

FORMATS: dict[str, Format] = {
    "dish-json": Format("a terminal's answers as JSON: grpcurl", grpcurl.is_grpcurl, grpcurl.measure),
    "dish-sqlite": Format("SQLite of starlink-grpc-tools", tables.is_sqlite, tables.measure_sqlite),
    "parquet": Format("Parquet: pings, a terminal's telemetry, its maps", tables.is_parquet, tables.measure_parquet),
    "dish-csv": Format("CSV of a terminal: starlink-grpc-tools, LEOViz", tables.is_dish_csv, tables.measure_csv),
}

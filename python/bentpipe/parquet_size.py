"""The unpacked size of a Parquet file, computed before unpacking.

A file of 100 kB can hold a hundred million equal rows. The footer has the number of rows, but a hostile file may lie.
So the headers of all pages are read too, by which a reader allocates memory. Both are in Thrift's compact protocol
(parquet-format, `parquet.thrift`); this module reads the necessary part and skips the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

#: Function (place, count) that reads bytes at a place of the file; fewer at its end.
ReadAt = Callable[[int, int], bytes]

_MAGIC = b"PAR1"
#: Longest page header read, and longest footer [bytes]. Chosen here: a header is some 30 bytes, more with statistics; a
#: footer of a file with thousands of row groups has some megabytes.
_HEADER_BYTES, _FOOTER_BYTES = 1 << 20, 256 << 20
#: Bytes of a page header that are read first; most headers are shorter.
_FIRST_BYTES = 512
#: Largest nesting; real files have less.
_MOST_DEPTH = 32
#: Most pages of a file. Chosen here: writers make pages of some 20,000 rows or a megabyte.
_MAX_PAGES = 1_000_000

# parquet.thrift: FileMetaData.row_groups, RowGroup.columns, ColumnChunk.meta_data, ColumnMetaData's members.
_NUM_ROWS, _ROW_GROUPS, _COLUMNS, _META_DATA = 3, 4, 1, 3
_PACKED_BYTES, _DATA_PAGE, _DICTIONARY_PAGE = 7, 9, 11
_GROUP_ROWS = 3
# PageHeader: type (0 data, 2 dictionary, 3 data of version 2), sizes, and the headers by type with num_values first.
_TYPE, _UNPACKED_BYTES, _COMPRESSED_BYTES = 1, 2, 3
_VALUES_OF = {0: 5, 3: 8}


@dataclass(frozen=True)
class Size:
    """Size of an unpacked Parquet file.

    Attributes:
        rows: Number of rows, from the footer.
        values: Number of values of the largest column, from the pages; lists have more values than rows.
        cells: Number of values of all columns together.
        unpacked_bytes: Bytes of all pages, unpacked, before dictionaries are applied.
    """

    rows: int
    values: int
    cells: int
    unpacked_bytes: int


def parquet_size(read_at: ReadAt, file_bytes: int) -> Size:
    """Return the size of a Parquet file.

    Raises:
        ValueError: It is no Parquet file, or a damaged one.
    """
    if file_bytes < 12 or read_at(file_bytes - 4, 4) != _MAGIC:
        raise ValueError("it does not end as Parquet does")
    footer_bytes = int.from_bytes(read_at(file_bytes - 8, 4), "little")
    if not 0 < footer_bytes <= min(file_bytes - 12, _FOOTER_BYTES):
        raise ValueError("the length of its footer is out of place")
    footer = _Thrift(read_at(file_bytes - 8 - footer_bytes, footer_bytes)).struct()
    rows = values = cells = unpacked = packed = pages = 0
    for group in _list(footer, _ROW_GROUPS):
        rows += _int(group, _GROUP_ROWS)
        most = 0
        for column in _list(group, _COLUMNS):
            chunk = _struct(column, _META_DATA)
            # Chunks that overlap would have the same pages read again and again.
            packed += _int(chunk, _PACKED_BYTES)
            if packed > file_bytes:
                raise ValueError("its columns are larger than the file")
            column_values = 0
            for page_values, page_bytes in _pages(read_at, chunk, file_bytes):
                column_values += page_values
                unpacked += page_bytes
                pages += 1
                if pages > _MAX_PAGES:
                    raise ValueError(f"it has more than {_MAX_PAGES} pages")
            cells += column_values
            most = max(most, column_values)
        values += most
    return Size(max(rows, _int(footer, _NUM_ROWS)), values, cells, unpacked)


def _pages(read_at: ReadAt, chunk: dict[int, Any], file_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield the number of values and the unpacked bytes of each page of a column chunk."""
    place = _int(chunk, _DATA_PAGE)
    if 0 < chunk.get(_DICTIONARY_PAGE, 0) < place:
        place = _int(chunk, _DICTIONARY_PAGE)
    end = place + _int(chunk, _PACKED_BYTES)
    if end > file_bytes:
        raise ValueError("a column reaches behind the end of the file")
    while place < end:
        header, length = _header(read_at, place)
        values = _struct(header, _VALUES_OF[header[_TYPE]]) if header.get(_TYPE) in _VALUES_OF else {1: 0}
        yield _int(values, 1), _int(header, _UNPACKED_BYTES)
        place += length + _int(header, _COMPRESSED_BYTES)


def _header(read_at: ReadAt, place: int) -> tuple[dict[int, Any], int]:
    """Return a page header and its length in bytes."""
    size = _FIRST_BYTES
    while True:
        data = read_at(place, size)
        thrift = _Thrift(data)
        try:
            return thrift.struct(), thrift.place
        except IndexError:
            if len(data) < size or size >= _HEADER_BYTES:
                raise ValueError("the header of a page does not end") from None
            size = _HEADER_BYTES


def _int(struct: Any, field: int) -> int:  # noqa: ANN401 - any value
    value = _struct_of(struct).get(field)
    if type(value) is not int or value < 0:
        raise ValueError("a number in its footer or pages is out of place")
    return value


def _list(struct: Any, field: int) -> list[Any]:  # noqa: ANN401 - any value
    value = _struct_of(struct).get(field, [])
    if not isinstance(value, list):
        raise ValueError("its footer is damaged")
    return value


def _struct(struct: Any, field: int) -> dict[int, Any]:  # noqa: ANN401 - any value
    return _struct_of(_struct_of(struct).get(field))


def _struct_of(value: Any) -> dict[int, Any]:  # noqa: ANN401 - any value
    if not isinstance(value, dict):
        raise ValueError("its footer is damaged")
    return value


class _Thrift:
    """Reader of Thrift's compact protocol. Raises `IndexError` at the end of the bytes, `ValueError` if malformed."""

    def __init__(self, data: bytes) -> None:
        self._data, self.place, self._depth = data, 0, 0

    def struct(self) -> dict[int, Any]:
        """Read fields by number; texts are skipped."""
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise ValueError("its footer is nested too deeply")
        value: dict[int, Any] = {}
        number = 0
        while byte := self._byte():
            number = number + (byte >> 4) if byte >> 4 else self._zigzag()
            value[number] = self._value(byte & 15)
        self._depth -= 1
        return value

    def _value(self, kind: int) -> Any:  # noqa: ANN401, PLR0911 - Thrift is anything
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._zigzag()
        if kind == 7:
            return self._skip(8)
        if kind == 8:
            return self._skip(self._varint())
        if kind in (9, 10):
            return self._items()
        if kind == 12:
            return self.struct()
        raise ValueError("its footer is damaged")

    def _items(self) -> list[Any]:
        head = self._byte()
        count, kind = head >> 4, head & 15
        if count == 15:
            count = self._varint()
        # In a list a truth value has a byte of its own.
        return [self._byte() if kind in (1, 2) else self._value(kind) for _ in range(count)]

    def _byte(self) -> int:
        byte = self._data[self.place]
        self.place += 1
        return byte

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("its footer is damaged")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _skip(self, count: int) -> None:
        self.place += count
        if self.place > len(self._data):
            raise IndexError

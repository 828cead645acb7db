"""A table of finished results as Parquet: the only place that knows pyarrow, which is an extra of its own."""

from itertools import islice
from typing import Any, BinaryIO

from engine.errors import OutputUnavailable
from engine.results.tables import ColumnType, Table

_ROWS_A_GROUP = 10_000


def write_parquet(out: BinaryIO, table: Table) -> None:
    """Write `table` to `out`, which need not be seekable; memory is bounded by a group of 10,000 rows. Times are UTC milliseconds.

    Raises:
        OutputUnavailable: pyarrow is not installed.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra, and heavy
        import pyarrow.compute as pc  # noqa: PLC0415 - same
        import pyarrow.parquet as pq  # noqa: PLC0415 - same
    except ImportError as error:
        raise OutputUnavailable("cannot write Parquet: pyarrow is not installed", hint="pip install 'arena-reconciler[parquet]'") from error
    moment = pa.timestamp("ms", tz="UTC")
    types: dict[ColumnType, Any] = {
        ColumnType.TEXT: pa.string(),
        ColumnType.INTEGER: pa.int64(),
        ColumnType.NUMBER: pa.float64(),
        ColumnType.BOOLEAN: pa.bool_(),
        ColumnType.TIME: moment,
    }

    def array(position: int, type_: ColumnType, rows: list[list[Any]]) -> Any:
        values = [row[position] for row in rows]
        if type_ is not ColumnType.TIME:
            return pa.array(values, types[type_])
        return pc.cast(pa.array([value and value.removesuffix("Z") for value in values], pa.string()), pa.timestamp("ms")).cast(moment)

    schema = pa.schema([(column.name, types[column.type]) for column in table.columns])
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        while rows := list(islice(table.rows, _ROWS_A_GROUP)):
            writer.write_table(pa.Table.from_arrays([array(i, column.type, rows) for i, column in enumerate(table.columns)], schema=schema))

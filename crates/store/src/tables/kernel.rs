//! The table of entries into the kernel.

use base::{CpuId, Nanos, Pid, Tid};
use facts::{KernelCause, KernelEntry};

use super::{PID, TID, TIME, text, word};
use crate::schema::{
    Cell, Column, ColumnKind, Room, Row, RowError, RowSink, RowSource, Shape, TableHead,
};

const fn number(name: &'static str) -> Column {
    Column::new(name, ColumnKind::U64, Shape::Repeating)
}

impl Row for KernelEntry {
    const HEAD: TableHead = TableHead { name: "kernel_entries", since: 5, room: Room::Bulk };
    const COLUMNS: &'static [Column] = &[
        TIME,
        number("length_ns"),
        PID,
        TID,
        Column::nullable("cpu", ColumnKind::U32),
        word::<KernelCause>("cause"),
        text("name"),
        number("count"),
        Column::nullable("own_ns", ColumnKind::U64),
        number("waited_ns"),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::U64(self.length.0));
        row.cell(Cell::I32(self.pid.0));
        row.cell(Cell::I32(self.tid.0));
        row.optional_u32(self.cpu.map(|cpu| cpu.0));
        row.word(self.cause);
        row.text(&self.name);
        row.cell(Cell::U64(self.count));
        row.optional_u64(self.own.map(|own| own.0));
        row.cell(Cell::U64(self.waited.0));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<KernelEntry, RowError> {
        Ok(KernelEntry {
            time: Nanos(row.u64()?),
            length: Nanos(row.u64()?),
            pid: Pid(row.i32()?),
            tid: Tid(row.i32()?),
            cpu: row.optional_u32()?.map(CpuId),
            cause: row.word()?,
            name: row.text()?,
            count: row.u64()?,
            own: row.optional_u64()?.map(Nanos),
            waited: Nanos(row.u64()?),
        })
    }
}

//! The tables of what threads did when they did not run.

use base::{Nanos, Pid, RemoteAddr, StackId, Tid};
use facts::{Concurrency, ThreadTime, Wait, WaitKind, WaitObject, Wake, Waker};

use super::{PID, STACK, TID, TIME, text, word};
use crate::schema::{
    Cell, Column, ColumnKind, Room, Row, RowError, RowSink, RowSource, Shape, TableHead,
};

const SPAN: Column = number("span_ns");

const fn number(name: &'static str) -> Column {
    Column::new(name, ColumnKind::U64, Shape::Repeating)
}

impl Row for Wait {
    const HEAD: TableHead = TableHead { name: "waits", since: 5, room: Room::Bulk };
    const COLUMNS: &'static [Column] = &[
        TIME,
        SPAN,
        PID,
        TID,
        word::<WaitKind>("kind"),
        number("waits"),
        number("waited_ns"),
        Column::nullable("object", ColumnKind::U64),
        STACK,
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::U64(self.span.0));
        row.cell(Cell::I32(self.pid.0));
        row.cell(Cell::I32(self.tid.0));
        row.word(self.kind);
        row.cell(Cell::U64(self.waits));
        row.cell(Cell::U64(self.waited.0));
        row.optional_u64(self.object.map(|object| object.0));
        row.optional_u32(self.stack.map(|stack| stack.0));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<Wait, RowError> {
        Ok(Wait {
            time: Nanos(row.u64()?),
            span: Nanos(row.u64()?),
            pid: Pid(row.i32()?),
            tid: Tid(row.i32()?),
            kind: row.word()?,
            waits: row.u64()?,
            waited: Nanos(row.u64()?),
            object: row.optional_u64()?.map(RemoteAddr),
            stack: row.optional_u32()?.map(StackId),
        })
    }
}

impl Row for ThreadTime {
    const HEAD: TableHead = TableHead { name: "thread_times", since: 5, room: Room::Bulk };
    const COLUMNS: &'static [Column] = &[
        TIME,
        SPAN,
        PID,
        TID,
        number("running_ns"),
        Column::nullable("queued_ns", ColumnKind::U64),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::U64(self.span.0));
        row.cell(Cell::I32(self.pid.0));
        row.cell(Cell::I32(self.tid.0));
        row.cell(Cell::U64(self.running.0));
        row.optional_u64(self.queued.map(|queued| queued.0));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<ThreadTime, RowError> {
        Ok(ThreadTime {
            time: Nanos(row.u64()?),
            span: Nanos(row.u64()?),
            pid: Pid(row.i32()?),
            tid: Tid(row.i32()?),
            running: Nanos(row.u64()?),
            queued: row.optional_u64()?.map(Nanos),
        })
    }
}

impl Row for Concurrency {
    const HEAD: TableHead = TableHead { name: "concurrency", since: 5, room: Room::Bulk };
    const COLUMNS: &'static [Column] = &[
        TIME,
        SPAN,
        Column::new("running", ColumnKind::U32, Shape::Repeating),
        number("duration_ns"),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::U64(self.span.0));
        row.cell(Cell::U32(self.running));
        row.cell(Cell::U64(self.duration.0));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<Concurrency, RowError> {
        Ok(Concurrency {
            time: Nanos(row.u64()?),
            span: Nanos(row.u64()?),
            running: row.u32()?,
            duration: Nanos(row.u64()?),
        })
    }
}

impl Row for WaitObject {
    const HEAD: TableHead = TableHead { name: "wait_objects", since: 5, room: Room::Names };
    const COLUMNS: &'static [Column] = &[
        PID,
        Column::new("address", ColumnKind::U64, Shape::Rising),
        text("name"),
        text("module"),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::I32(self.pid.0));
        row.cell(Cell::U64(self.address.0));
        row.text(&self.name);
        row.text(&self.module);
    }

    fn take<S: RowSource>(row: &mut S) -> Result<WaitObject, RowError> {
        Ok(WaitObject {
            pid: Pid(row.i32()?),
            address: RemoteAddr(row.u64()?),
            name: row.text()?,
            module: row.text()?,
        })
    }
}

impl Row for Wake {
    const HEAD: TableHead = TableHead { name: "wakes", since: 5, room: Room::Bulk };
    const COLUMNS: &'static [Column] = &[
        TIME,
        SPAN,
        PID,
        TID,
        Column::nullable("object", ColumnKind::U64),
        STACK,
        Column::nullable("waker_pid", ColumnKind::I32),
        Column::nullable("waker_tid", ColumnKind::I32),
        Column::nullable("waker_stack", ColumnKind::U32),
        number("wakes"),
        number("waited_ns"),
        number("seen"),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::U64(self.span.0));
        row.cell(Cell::I32(self.pid.0));
        row.cell(Cell::I32(self.tid.0));
        row.optional_u64(self.object.map(|object| object.0));
        row.optional_u32(self.stack.map(|stack| stack.0));
        row.optional_i32(self.waker.map(|waker| waker.pid.0));
        row.optional_i32(self.waker.map(|waker| waker.tid.0));
        row.optional_u32(self.waker.and_then(|waker| waker.stack).map(|stack| stack.0));
        row.cell(Cell::U64(self.wakes));
        row.cell(Cell::U64(self.waited.0));
        row.cell(Cell::U64(self.seen));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<Wake, RowError> {
        Ok(Wake {
            time: Nanos(row.u64()?),
            span: Nanos(row.u64()?),
            pid: Pid(row.i32()?),
            tid: Tid(row.i32()?),
            object: row.optional_u64()?.map(RemoteAddr),
            stack: row.optional_u32()?.map(StackId),
            waker: {
                let (pid, tid) = (row.optional_i32()?, row.optional_i32()?);
                let stack = row.optional_u32()?.map(StackId);
                pid.zip(tid).map(|(pid, tid)| Waker { pid: Pid(pid), tid: Tid(tid), stack })
            },
            wakes: row.u64()?,
            waited: Nanos(row.u64()?),
            seen: row.u64()?,
        })
    }
}

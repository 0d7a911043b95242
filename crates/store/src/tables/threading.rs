//! The tables of what threads did while they did not run.
//!
//! What not: their invariants (`verify/threading`).

use base::{Nanos, Pid, RemoteAddr, StackId, Tid};
use facts::{Wake, Waker};

use super::{PID, STACK, TID, TIME};
use crate::schema::{
    Cell, Column, ColumnKind, Room, Row, RowError, RowSink, RowSource, Shape, TableHead,
};

const fn number(name: &'static str) -> Column {
    Column::new(name, ColumnKind::U64, Shape::Repeating)
}

row!(Wait = "waits", since 5, Bulk {
    time: "time_ns", Rising;
    span: "span_ns";
    pid: "pid";
    tid: "tid";
    kind: "kind";
    waits: "waits";
    waited: "waited_ns";
    object: "object";
    stack: "stack";
});

row!(ThreadTime = "thread_times", since 5, Bulk {
    time: "time_ns", Rising;
    span: "span_ns";
    pid: "pid";
    tid: "tid";
    running: "running_ns";
    queued: "queued_ns";
});

row!(Concurrency = "concurrency", since 5, Bulk {
    time: "time_ns", Rising;
    span: "span_ns";
    running: "running";
    duration: "duration_ns";
});

row!(WaitObject = "wait_objects", since 5, Names {
    pid: "pid";
    address: "address", Rising;
    name: "name";
    module: "module";
});

impl Row for Wake {
    const HEAD: TableHead = TableHead { name: "wakes", since: 5, room: Room::Bulk };
    const COLUMNS: &'static [Column] = &[
        TIME,
        number("span_ns"),
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

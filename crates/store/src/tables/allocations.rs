//! The tables of the heap: recorded blocks, their ends, and what was counted.

use base::{AllocationId, Bytes, Nanos, Pid, RemoteAddr, StackId, Tid};
use facts::{
    Allocation, AllocationCall, HeapFree, HeapLifetime, HeapStack, HeapTotal, Release, SizeClass,
};

use super::{PID, STACK, TID, TIME, word};
use crate::schema::{
    Cell, Column, ColumnKind, Room, Row, RowError, RowSink, RowSource, Shape, TableHead,
};

const fn number(name: &'static str) -> Column {
    Column::new(name, ColumnKind::U64, Shape::Repeating)
}

impl Row for Allocation {
    const HEAD: TableHead = TableHead { name: "allocations", since: 4, room: Room::Bulk };
    const COLUMNS: &'static [Column] = &[
        Column::new("id", ColumnKind::U32, Shape::Rising),
        TIME,
        PID,
        TID,
        Column::new("address", ColumnKind::U64, Shape::Rising),
        number("bytes"),
        word::<AllocationCall>("call"),
        STACK,
        number("sample_every_bytes"),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U32(self.id.0));
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::I32(self.pid.0));
        row.cell(Cell::I32(self.tid.0));
        row.cell(Cell::U64(self.address.0));
        row.cell(Cell::U64(self.size.0));
        row.word(self.call);
        row.optional_u32(self.stack.map(|stack| stack.0));
        row.cell(Cell::U64(self.sample_every.0));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<Allocation, RowError> {
        Ok(Allocation {
            id: AllocationId(row.u32()?),
            time: Nanos(row.u64()?),
            pid: Pid(row.i32()?),
            tid: Tid(row.i32()?),
            address: RemoteAddr(row.u64()?),
            size: Bytes(row.u64()?),
            call: row.word()?,
            stack: row.optional_u32()?.map(StackId),
            sample_every: Bytes(row.u64()?),
        })
    }
}

impl Row for Release {
    const HEAD: TableHead = TableHead { name: "releases", since: 4, room: Room::Bulk };
    const COLUMNS: &'static [Column] =
        &[TIME, Column::new("allocation", ColumnKind::U32, Shape::Rising), TID, STACK];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::U32(self.allocation.0));
        row.cell(Cell::I32(self.tid.0));
        row.optional_u32(self.stack.map(|stack| stack.0));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<Release, RowError> {
        Ok(Release {
            time: Nanos(row.u64()?),
            allocation: AllocationId(row.u32()?),
            tid: Tid(row.i32()?),
            stack: row.optional_u32()?.map(StackId),
        })
    }
}

impl Row for HeapTotal {
    const HEAD: TableHead = TableHead { name: "heap_totals", since: 4, room: Room::Always };
    const COLUMNS: &'static [Column] = &[
        PID,
        number("allocations"),
        number("allocated_bytes"),
        number("frees"),
        number("freed_bytes"),
        number("inherited_bytes"),
        number("peak_bytes"),
        number("peak_doubt_bytes"),
        number("unknown_frees"),
        number("forgotten"),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::I32(self.pid.0));
        for value in [
            self.allocations,
            self.allocated.0,
            self.frees,
            self.freed.0,
            self.inherited.0,
            self.peak.0,
            self.peak_doubt.0,
            self.unknown_frees,
            self.forgotten,
        ] {
            row.cell(Cell::U64(value));
        }
    }

    fn take<S: RowSource>(row: &mut S) -> Result<HeapTotal, RowError> {
        Ok(HeapTotal {
            pid: Pid(row.i32()?),
            allocations: row.u64()?,
            allocated: Bytes(row.u64()?),
            frees: row.u64()?,
            freed: Bytes(row.u64()?),
            inherited: Bytes(row.u64()?),
            peak: Bytes(row.u64()?),
            peak_doubt: Bytes(row.u64()?),
            unknown_frees: row.u64()?,
            forgotten: row.u64()?,
        })
    }
}

impl Row for SizeClass {
    const HEAD: TableHead = TableHead { name: "size_classes", since: 4, room: Room::Always };
    const COLUMNS: &'static [Column] =
        &[PID, number("largest_bytes"), number("allocations"), number("allocated_bytes")];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::I32(self.pid.0));
        row.cell(Cell::U64(self.largest.0));
        row.cell(Cell::U64(self.allocations));
        row.cell(Cell::U64(self.allocated.0));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<SizeClass, RowError> {
        Ok(SizeClass {
            pid: Pid(row.i32()?),
            largest: Bytes(row.u64()?),
            allocations: row.u64()?,
            allocated: Bytes(row.u64()?),
        })
    }
}

impl Row for HeapStack {
    const HEAD: TableHead = TableHead { name: "heap_stacks", since: 5, room: Room::Names };
    const COLUMNS: &'static [Column] = &[
        TIME,
        PID,
        STACK,
        word::<AllocationCall>("call"),
        number("allocations"),
        number("allocated_bytes"),
        number("frees"),
        number("freed_bytes"),
        number("temporary"),
        number("lifetime_ns"),
        number("largest_bytes"),
        number("peak_bytes"),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::I32(self.pid.0));
        row.optional_u32(self.stack.map(|stack| stack.0));
        row.word(self.call);
        for value in [
            self.allocations,
            self.allocated.0,
            self.frees,
            self.freed.0,
            self.temporary,
            self.lifetime.0,
            self.largest.0,
            self.at_peak.0,
        ] {
            row.cell(Cell::U64(value));
        }
    }

    fn take<S: RowSource>(row: &mut S) -> Result<HeapStack, RowError> {
        Ok(HeapStack {
            time: Nanos(row.u64()?),
            pid: Pid(row.i32()?),
            stack: row.optional_u32()?.map(StackId),
            call: row.word()?,
            allocations: row.u64()?,
            allocated: Bytes(row.u64()?),
            frees: row.u64()?,
            freed: Bytes(row.u64()?),
            temporary: row.u64()?,
            lifetime: Nanos(row.u64()?),
            largest: Bytes(row.u64()?),
            at_peak: Bytes(row.u64()?),
        })
    }
}

impl Row for HeapFree {
    const HEAD: TableHead = TableHead { name: "heap_frees", since: 5, room: Room::Names };
    const COLUMNS: &'static [Column] = &[
        TIME,
        PID,
        STACK,
        Column::nullable("free_stack", ColumnKind::U32),
        number("frees"),
        number("freed_bytes"),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::I32(self.pid.0));
        row.optional_u32(self.stack.map(|stack| stack.0));
        row.optional_u32(self.free_stack.map(|stack| stack.0));
        row.cell(Cell::U64(self.frees));
        row.cell(Cell::U64(self.freed.0));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<HeapFree, RowError> {
        Ok(HeapFree {
            time: Nanos(row.u64()?),
            pid: Pid(row.i32()?),
            stack: row.optional_u32()?.map(StackId),
            free_stack: row.optional_u32()?.map(StackId),
            frees: row.u64()?,
            freed: Bytes(row.u64()?),
        })
    }
}

impl Row for HeapLifetime {
    const HEAD: TableHead = TableHead { name: "heap_lifetimes", since: 5, room: Room::Names };
    const COLUMNS: &'static [Column] = &[
        TIME,
        PID,
        STACK,
        word::<AllocationCall>("call"),
        number("longest_ns"),
        number("frees"),
        number("freed_bytes"),
        number("temporary"),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::I32(self.pid.0));
        row.optional_u32(self.stack.map(|stack| stack.0));
        row.word(self.call);
        for value in [self.longest.0, self.frees, self.freed.0, self.temporary] {
            row.cell(Cell::U64(value));
        }
    }

    fn take<S: RowSource>(row: &mut S) -> Result<HeapLifetime, RowError> {
        Ok(HeapLifetime {
            time: Nanos(row.u64()?),
            pid: Pid(row.i32()?),
            stack: row.optional_u32()?.map(StackId),
            call: row.word()?,
            longest: Nanos(row.u64()?),
            frees: row.u64()?,
            freed: Bytes(row.u64()?),
            temporary: row.u64()?,
        })
    }
}

//! The columns of every table, and how a fact becomes its row: the only place that knows both, with the files in `tables`.
//!
//! A change here is a change of the format: bump `facts::SCHEMA_VERSION` and add a paragraph to
//! `docs/format/result-directory.md`.

mod allocations;
mod bursts;
mod kernel;
mod objects;
mod threading;

pub use bursts::code_length;

use base::{CpuId, FileOffset, ModuleId, Nanos, Pid, RemoteAddr, StackId, Tid};
use facts::{
    Counter, CounterKind, Fault, FaultKind, Frame, Gauge, GaugeKind, Lost, LostSource, Mapping,
    Module, ModuleKind, Privilege, Sample, StackNode, ThreadEvent, ThreadEventKind,
};

use crate::schema::{
    Cell, Column, ColumnKind, Room, Row, RowError, RowSink, RowSource, Shape, TableHead, Word,
};
use crate::words::ModuleWord;

const TIME: Column = Column::new("time_ns", ColumnKind::U64, Shape::Rising);
const PID: Column = Column::new("pid", ColumnKind::I32, Shape::Repeating);
const TID: Column = Column::new("tid", ColumnKind::I32, Shape::Repeating);
const STACK: Column = Column::nullable("stack", ColumnKind::U32);
const MODULE: Column = Column::new("module", ColumnKind::U32, Shape::Repeating);
const MODULE_OFFSET: Column = Column::new("module_offset", ColumnKind::U64, Shape::Repeating);

const fn word<W: Word>(name: &'static str) -> Column {
    Column::new(name, ColumnKind::Word(W::WORDS), Shape::Repeating)
}

const fn text(name: &'static str) -> Column {
    Column::new(name, ColumnKind::Text, Shape::Repeating)
}

impl Row for Module {
    const HEAD: TableHead = TableHead { name: "modules", since: 1, room: Room::Names };
    const COLUMNS: &'static [Column] = &[
        Column::new("id", ColumnKind::U32, Shape::Rising),
        word::<ModuleWord>("kind"),
        Column::nullable("pid", ColumnKind::I32),
        text("path"),
        Column::nullable("build_id", ColumnKind::Text),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        let (kind, pid) = match self.kind {
            ModuleKind::File => (ModuleWord::File, None),
            ModuleKind::Kernel => (ModuleWord::Kernel, None),
            ModuleKind::Vdso => (ModuleWord::Vdso, None),
            ModuleKind::Anonymous { pid } => (ModuleWord::Anonymous, Some(pid.0)),
            ModuleKind::Unknown => (ModuleWord::Unknown, None),
        };
        row.cell(Cell::U32(self.id.0));
        row.word(kind);
        row.optional_i32(pid);
        row.text(&self.path);
        row.optional_text(self.build_id.as_deref());
    }

    fn take<S: RowSource>(row: &mut S) -> Result<Module, RowError> {
        let id = ModuleId(row.u32()?);
        let kind = row.word()?;
        let pid = row.optional_i32()?;
        let kind = match (kind, pid) {
            (ModuleWord::File, _) => ModuleKind::File,
            (ModuleWord::Kernel, _) => ModuleKind::Kernel,
            (ModuleWord::Vdso, _) => ModuleKind::Vdso,
            (ModuleWord::Anonymous, Some(pid)) => ModuleKind::Anonymous { pid: Pid(pid) },
            (ModuleWord::Anonymous, None) => return Err(row.out_of_range()),
            (ModuleWord::Unknown, _) => ModuleKind::Unknown,
        };
        Ok(Module { id, kind, path: row.text()?, build_id: row.optional_text()? })
    }
}

impl Row for Mapping {
    const HEAD: TableHead = TableHead { name: "mappings", since: 1, room: Room::Bulk };
    const COLUMNS: &'static [Column] = &[
        TIME,
        PID,
        Column::new("start_address", ColumnKind::U64, Shape::Rising),
        Column::new("end_address", ColumnKind::U64, Shape::Rising),
        Column::new("file_offset", ColumnKind::U64, Shape::Repeating),
        MODULE,
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::I32(self.pid.0));
        row.cell(Cell::U64(self.start.0));
        row.cell(Cell::U64(self.end.0));
        row.cell(Cell::U64(self.file_offset.0));
        row.cell(Cell::U32(self.module.0));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<Mapping, RowError> {
        Ok(Mapping {
            time: Nanos(row.u64()?),
            pid: Pid(row.i32()?),
            start: RemoteAddr(row.u64()?),
            end: RemoteAddr(row.u64()?),
            file_offset: FileOffset(row.u64()?),
            module: ModuleId(row.u32()?),
        })
    }
}

impl Row for StackNode {
    const HEAD: TableHead = TableHead { name: "stacks", since: 1, room: Room::Bulk };
    const COLUMNS: &'static [Column] = &[
        Column::new("id", ColumnKind::U32, Shape::Rising),
        Column::nullable("parent", ColumnKind::U32),
        MODULE,
        MODULE_OFFSET,
        Column::new("truncated", ColumnKind::Bool, Shape::Repeating),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U32(self.id.0));
        row.optional_u32(self.parent.map(|parent| parent.0));
        row.cell(Cell::U32(self.module.0));
        row.cell(Cell::U64(self.offset.0));
        row.cell(Cell::Bool(self.truncated));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<StackNode, RowError> {
        Ok(StackNode {
            id: StackId(row.u32()?),
            parent: row.optional_u32()?.map(StackId),
            module: ModuleId(row.u32()?),
            offset: FileOffset(row.u64()?),
            truncated: row.bool()?,
        })
    }
}

impl Row for Sample {
    const HEAD: TableHead = TableHead { name: "samples", since: 1, room: Room::Bulk };
    const COLUMNS: &'static [Column] = &[
        TIME,
        PID,
        TID,
        Column::nullable("cpu", ColumnKind::U32),
        Column::new("weight_ns", ColumnKind::U64, Shape::Repeating),
        STACK,
        word::<Privilege>("privilege"),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::I32(self.pid.0));
        row.cell(Cell::I32(self.tid.0));
        row.optional_u32(self.cpu.map(|cpu| cpu.0));
        row.cell(Cell::U64(self.weight.0));
        row.optional_u32(self.stack.map(|stack| stack.0));
        row.word(self.privilege);
    }

    fn take<S: RowSource>(row: &mut S) -> Result<Sample, RowError> {
        Ok(Sample {
            time: Nanos(row.u64()?),
            pid: Pid(row.i32()?),
            tid: Tid(row.i32()?),
            cpu: row.optional_u32()?.map(CpuId),
            weight: Nanos(row.u64()?),
            stack: row.optional_u32()?.map(StackId),
            privilege: row.word()?,
        })
    }
}

impl Row for Fault {
    const HEAD: TableHead = TableHead { name: "faults", since: 1, room: Room::Bulk };
    const COLUMNS: &'static [Column] = &[
        TIME,
        PID,
        TID,
        Column::new("address", ColumnKind::U64, Shape::Rising),
        STACK,
        Column::new("weight", ColumnKind::U64, Shape::Repeating),
        word::<FaultKind>("kind"),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::I32(self.pid.0));
        row.cell(Cell::I32(self.tid.0));
        row.cell(Cell::U64(self.address.0));
        row.optional_u32(self.stack.map(|stack| stack.0));
        row.cell(Cell::U64(self.weight));
        row.word(self.kind);
    }

    fn take<S: RowSource>(row: &mut S) -> Result<Fault, RowError> {
        Ok(Fault {
            time: Nanos(row.u64()?),
            pid: Pid(row.i32()?),
            tid: Tid(row.i32()?),
            address: RemoteAddr(row.u64()?),
            stack: row.optional_u32()?.map(StackId),
            weight: row.u64()?,
            kind: row.word()?,
        })
    }
}

impl Row for ThreadEvent {
    const HEAD: TableHead = TableHead { name: "threads", since: 1, room: Room::Names };
    const COLUMNS: &'static [Column] =
        &[TIME, PID, TID, word::<ThreadEventKind>("kind"), text("name")];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::I32(self.pid.0));
        row.cell(Cell::I32(self.tid.0));
        row.word(self.kind);
        row.text(&self.name);
    }

    fn take<S: RowSource>(row: &mut S) -> Result<ThreadEvent, RowError> {
        Ok(ThreadEvent {
            time: Nanos(row.u64()?),
            pid: Pid(row.i32()?),
            tid: Tid(row.i32()?),
            kind: row.word()?,
            name: row.text()?,
        })
    }
}

impl Row for Lost {
    const HEAD: TableHead = TableHead { name: "lost", since: 1, room: Room::Always };
    const COLUMNS: &'static [Column] = &[
        TIME,
        word::<LostSource>("source"),
        Column::new("count", ColumnKind::U64, Shape::Repeating),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.word(self.source);
        row.cell(Cell::U64(self.count));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<Lost, RowError> {
        Ok(Lost { time: Nanos(row.u64()?), source: row.word()?, count: row.u64()? })
    }
}

impl Row for Counter {
    const HEAD: TableHead = TableHead { name: "counters", since: 1, room: Room::Always };
    const COLUMNS: &'static [Column] =
        &[word::<CounterKind>("kind"), Column::new("value", ColumnKind::U64, Shape::Repeating)];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.word(self.kind);
        row.cell(Cell::U64(self.value));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<Counter, RowError> {
        Ok(Counter { kind: row.word()?, value: row.u64()? })
    }
}

impl Row for Gauge {
    const HEAD: TableHead = TableHead { name: "gauges", since: 1, room: Room::Bulk };
    const COLUMNS: &'static [Column] = &[
        TIME,
        PID,
        word::<GaugeKind>("kind"),
        Column::new("value", ColumnKind::U64, Shape::Repeating),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::I32(self.pid.0));
        row.word(self.kind);
        row.cell(Cell::U64(self.value));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<Gauge, RowError> {
        Ok(Gauge {
            time: Nanos(row.u64()?),
            pid: Pid(row.i32()?),
            kind: row.word()?,
            value: row.u64()?,
        })
    }
}

impl Row for Frame {
    const HEAD: TableHead = TableHead { name: "frames", since: 1, room: Room::Names };
    const COLUMNS: &'static [Column] = &[
        MODULE,
        MODULE_OFFSET,
        Column::new("depth", ColumnKind::U32, Shape::Repeating),
        text("function"),
        Column::nullable("file", ColumnKind::Text),
        Column::nullable("line", ColumnKind::U32),
        Column::new("inlined", ColumnKind::Bool, Shape::Repeating),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U32(self.module.0));
        row.cell(Cell::U64(self.offset.0));
        row.cell(Cell::U32(self.depth));
        row.text(&self.function);
        row.optional_text(self.file.as_deref());
        row.optional_u32(self.line);
        row.cell(Cell::Bool(self.inlined));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<Frame, RowError> {
        Ok(Frame {
            module: ModuleId(row.u32()?),
            offset: FileOffset(row.u64()?),
            depth: row.u32()?,
            function: row.text()?,
            file: row.optional_text()?,
            line: row.optional_u32()?,
            inlined: row.bool()?,
        })
    }
}

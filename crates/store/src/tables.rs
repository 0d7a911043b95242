//! The columns of every table, and how a fact becomes its row: the only place that knows both, with the files in `tables`.
//!
//! A change here is a change of the format: bump `facts::SCHEMA_VERSION` and add a paragraph to
//! `docs/format/result-directory.md`. A new column comes last and is nullable (an `Option` in the fact): tables of older
//! results do not have it, and it reads as NULL (`parquet_read`). Anywhere else, or not nullable, it makes them damaged.
//! Rows of a journal do not say how many columns they have: those of an older version would be misread.

/// The row of a fact each of whose fields has a column of its own, in this order. `Rising` or `Opaque` stands where its values
/// behave so; others repeat.
macro_rules! row {
    ($fact:ident = $name:literal, since $since:literal, $room:ident {
        $($field:ident: $column:literal $(, $shape:ident)?;)+
    }) => {
        impl crate::schema::Row for facts::$fact {
            const HEAD: crate::schema::TableHead = crate::schema::TableHead {
                name: $name,
                since: $since,
                room: crate::schema::Room::$room,
            };
            const COLUMNS: &'static [crate::schema::Column] = &[$(
                crate::value::column(
                    |fact: &facts::$fact| &fact.$field,
                    $column,
                    [$(crate::schema::Shape::$shape,)? crate::schema::Shape::Repeating][0],
                )
            ),+];

            fn put<S: crate::schema::RowSink>(&self, row: &mut S) {
                $(row.cell(crate::value::Value::cell(&self.$field));)+
            }

            fn take<S: crate::schema::RowSource>(
                row: &mut S,
            ) -> Result<Self, crate::schema::RowError> {
                Ok(Self { $($field: crate::value::take(row)?),+ })
            }
        }
    };
}

mod allocations;
mod bursts;
mod counting;
mod kernel;
mod marks;
mod memory_samples;
mod objects;
mod threading;

pub use bursts::code_length;

use base::{ModuleId, Pid};
use facts::{Module, ModuleKind};

use crate::schema::{
    Cell, Column, ColumnKind, Room, Row, RowError, RowSink, RowSource, Shape, TableHead, Word,
};
use crate::words::ModuleWord;

const TIME: Column = Column::new("time_ns", ColumnKind::U64, Shape::Rising);
const PID: Column = Column::new("pid", ColumnKind::I32, Shape::Repeating);
const TID: Column = Column::new("tid", ColumnKind::I32, Shape::Repeating);
const STACK: Column = Column::nullable("stack", ColumnKind::U32);

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

row!(Mapping = "mappings", since 1, Bulk {
    time: "time_ns", Rising;
    pid: "pid";
    start: "start_address", Rising;
    end: "end_address", Rising;
    file_offset: "file_offset";
    module: "module";
});

row!(StackNode = "stacks", since 1, Bulk {
    id: "id", Rising;
    parent: "parent";
    module: "module";
    offset: "module_offset";
    truncated: "truncated";
});

row!(Sample = "samples", since 1, Bulk {
    time: "time_ns", Rising;
    pid: "pid";
    tid: "tid";
    cpu: "cpu";
    weight: "weight_ns";
    stack: "stack";
    privilege: "privilege";
});

row!(Fault = "faults", since 1, Bulk {
    time: "time_ns", Rising;
    pid: "pid";
    tid: "tid";
    address: "address", Rising;
    stack: "stack";
    weight: "weight";
    kind: "kind";
});

row!(ThreadEvent = "threads", since 1, Names {
    time: "time_ns", Rising;
    pid: "pid";
    tid: "tid";
    kind: "kind";
    name: "name";
});

row!(Lost = "lost", since 1, Always {
    time: "time_ns", Rising;
    source: "source";
    count: "count";
});

row!(Counter = "counters", since 1, Always {
    kind: "kind";
    value: "value";
});

row!(Gauge = "gauges", since 1, Bulk {
    time: "time_ns", Rising;
    pid: "pid";
    kind: "kind";
    value: "value";
});

row!(Frame = "frames", since 1, Names {
    module: "module";
    offset: "module_offset";
    depth: "depth";
    function: "function";
    file: "file";
    line: "line";
    inlined: "inlined";
});

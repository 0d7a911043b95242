//! The tables of memory objects: regions, their ends, variables, types of accesses, and pages.

use base::{Bytes, FileOffset, ModuleId, Nanos, NodeId, Pid, RemoteAddr, StackId, Tid};
use facts::{AccessType, Global, Page, Region, RegionEnd, RegionKind};

use super::{MODULE, MODULE_OFFSET, PID, STACK, TIME, text, word};
use crate::schema::{
    Cell, Column, ColumnKind, Room, Row, RowError, RowSink, RowSource, Shape, TableHead,
};

const START: Column = Column::new("start_address", ColumnKind::U64, Shape::Rising);

const fn bytes(name: &'static str) -> Column {
    Column::new(name, ColumnKind::U64, Shape::Repeating)
}

impl Row for Region {
    const HEAD: TableHead = TableHead { name: "regions", since: 5, room: Room::Bulk };
    const COLUMNS: &'static [Column] = &[
        TIME,
        PID,
        Column::nullable("tid", ColumnKind::I32),
        START,
        bytes("bytes"),
        word::<RegionKind>("kind"),
        text("name"),
        bytes("file_offset"),
        Column::nullable("page_bytes", ColumnKind::U64),
        STACK,
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::I32(self.pid.0));
        row.optional_i32(self.tid.map(|tid| tid.0));
        row.cell(Cell::U64(self.start.0));
        row.cell(Cell::U64(self.bytes.0));
        row.word(self.kind);
        row.text(&self.name);
        row.cell(Cell::U64(self.file_offset.0));
        row.optional_u64(self.page.map(|page| page.0));
        row.optional_u32(self.stack.map(|stack| stack.0));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<Region, RowError> {
        Ok(Region {
            time: Nanos(row.u64()?),
            pid: Pid(row.i32()?),
            tid: row.optional_i32()?.map(Tid),
            start: RemoteAddr(row.u64()?),
            bytes: Bytes(row.u64()?),
            kind: row.word()?,
            name: row.text()?,
            file_offset: FileOffset(row.u64()?),
            page: row.optional_u64()?.map(Bytes),
            stack: row.optional_u32()?.map(StackId),
        })
    }
}

impl Row for RegionEnd {
    const HEAD: TableHead = TableHead { name: "region_ends", since: 5, room: Room::Bulk };
    const COLUMNS: &'static [Column] = &[TIME, PID, START, bytes("bytes")];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::I32(self.pid.0));
        row.cell(Cell::U64(self.start.0));
        row.cell(Cell::U64(self.bytes.0));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<RegionEnd, RowError> {
        Ok(RegionEnd {
            time: Nanos(row.u64()?),
            pid: Pid(row.i32()?),
            start: RemoteAddr(row.u64()?),
            bytes: Bytes(row.u64()?),
        })
    }
}

impl Row for Global {
    const HEAD: TableHead = TableHead { name: "globals", since: 5, room: Room::Names };
    const COLUMNS: &'static [Column] = &[TIME, PID, MODULE, START, bytes("bytes"), text("name")];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::I32(self.pid.0));
        row.cell(Cell::U32(self.module.0));
        row.cell(Cell::U64(self.start.0));
        row.cell(Cell::U64(self.bytes.0));
        row.text(&self.name);
    }

    fn take<S: RowSource>(row: &mut S) -> Result<Global, RowError> {
        Ok(Global {
            time: Nanos(row.u64()?),
            pid: Pid(row.i32()?),
            module: ModuleId(row.u32()?),
            start: RemoteAddr(row.u64()?),
            bytes: Bytes(row.u64()?),
            name: row.text()?,
        })
    }
}

impl Row for AccessType {
    const HEAD: TableHead = TableHead { name: "access_types", since: 5, room: Room::Names };
    const COLUMNS: &'static [Column] = &[
        MODULE,
        MODULE_OFFSET,
        Column::new("access", ColumnKind::U32, Shape::Repeating),
        Column::nullable("variable", ColumnKind::Text),
        text("type"),
        bytes("type_bytes"),
        Column::nullable("field", ColumnKind::Text),
        bytes("field_offset"),
        bytes("field_bytes"),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U32(self.module.0));
        row.cell(Cell::U64(self.offset.0));
        row.cell(Cell::U32(self.access));
        row.optional_text(self.variable.as_deref());
        row.text(&self.type_name);
        row.cell(Cell::U64(self.type_bytes.0));
        row.optional_text(self.field.as_deref());
        row.cell(Cell::U64(self.field_offset.0));
        row.cell(Cell::U64(self.field_bytes.0));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<AccessType, RowError> {
        Ok(AccessType {
            module: ModuleId(row.u32()?),
            offset: FileOffset(row.u64()?),
            access: row.u32()?,
            variable: row.optional_text()?,
            type_name: row.text()?,
            type_bytes: Bytes(row.u64()?),
            field: row.optional_text()?,
            field_offset: Bytes(row.u64()?),
            field_bytes: Bytes(row.u64()?),
        })
    }
}

impl Row for Page {
    const HEAD: TableHead = TableHead { name: "pages", since: 5, room: Room::Bulk };
    const COLUMNS: &'static [Column] = &[
        TIME,
        PID,
        Column::new("address", ColumnKind::U64, Shape::Rising),
        bytes("stands_for"),
        Column::nullable("huge", ColumnKind::Bool),
        Column::nullable("node", ColumnKind::U32),
    ];

    fn put<S: RowSink>(&self, row: &mut S) {
        row.cell(Cell::U64(self.time.0));
        row.cell(Cell::I32(self.pid.0));
        row.cell(Cell::U64(self.address.0));
        row.cell(Cell::U64(self.stands_for.0));
        row.cell(self.huge.map_or(Cell::Null, Cell::Bool));
        row.optional_u32(self.node.map(|node| node.0));
    }

    fn take<S: RowSource>(row: &mut S) -> Result<Page, RowError> {
        Ok(Page {
            time: Nanos(row.u64()?),
            pid: Pid(row.i32()?),
            address: RemoteAddr(row.u64()?),
            stands_for: Bytes(row.u64()?),
            huge: row.optional_bool()?,
            node: row.optional_u32()?.map(NodeId),
        })
    }
}

//! What a field of a fact is in a row: the kind of its column, and the cell of its value.
//!
//! What not: the words of enums (`words.rs`); fields that take several columns, whose rows are written out.

use base::{
    AllocationId, BlockId, BurstId, Bytes, CpuId, FileOffset, ModuleId, Nanos, NodeId, Picos, Pid,
    RemoteAddr, StackId, Tid,
};

use crate::schema::{Cell, Column, ColumnKind, RowError, RowSource, Shape, clipped};

/// The type of a field that has a column of its own.
pub trait Value: Sized {
    /// What its column holds.
    const KIND: ColumnKind;
    /// Whether a row may have no value there.
    const NULLABLE: bool = false;
    /// Its cell.
    fn cell(&self) -> Cell<'_>;
    /// The value of a cell; `None` when it is none of this type.
    fn of(cell: Cell<'_>) -> Option<Self>;
}

/// The column of a field, which is named by how to get it from its fact.
pub const fn column<F, V: Value>(_: fn(&F) -> &V, name: &'static str, shape: Shape) -> Column {
    Column { name, kind: V::KIND, nullable: V::NULLABLE, shape }
}

/// The next field of a row.
pub fn take<V: Value, S: RowSource>(row: &mut S) -> Result<V, RowError> {
    let value = V::of(row.cell()?);
    value.ok_or_else(|| row.out_of_range())
}

macro_rules! plain {
    ($($kind:ident: $type:ident;)+) => {
        $(impl Value for $type {
            const KIND: ColumnKind = ColumnKind::$kind;

            fn cell(&self) -> Cell<'_> {
                Cell::$kind(*self)
            }

            fn of(cell: Cell<'_>) -> Option<$type> {
                if let Cell::$kind(value) = cell { Some(value) } else { None }
            }
        })+
    };
}

plain! {
    U64: u64;
    U32: u32;
    Bool: bool;
}

macro_rules! newtypes {
    ($($kind:ident: $($type:ident)+;)+) => {
        $($(impl Value for $type {
            const KIND: ColumnKind = ColumnKind::$kind;

            fn cell(&self) -> Cell<'_> {
                Cell::$kind(self.0)
            }

            fn of(cell: Cell<'_>) -> Option<$type> {
                if let Cell::$kind(value) = cell { Some($type(value)) } else { None }
            }
        })+)+
    };
}

newtypes! {
    U64: Bytes FileOffset Nanos Picos RemoteAddr;
    U32: AllocationId BlockId BurstId CpuId ModuleId NodeId StackId;
    I32: Pid Tid;
}

impl Value for String {
    const KIND: ColumnKind = ColumnKind::Text;

    fn cell(&self) -> Cell<'_> {
        Cell::Text(clipped(self))
    }

    fn of(cell: Cell<'_>) -> Option<String> {
        if let Cell::Text(text) = cell { Some(text.to_owned()) } else { None }
    }
}

impl Value for Vec<u8> {
    const KIND: ColumnKind = ColumnKind::Bytes;

    fn cell(&self) -> Cell<'_> {
        Cell::Bytes(self)
    }

    fn of(cell: Cell<'_>) -> Option<Vec<u8>> {
        if let Cell::Bytes(bytes) = cell { Some(bytes.to_owned()) } else { None }
    }
}

impl<V: Value> Value for Option<V> {
    const KIND: ColumnKind = V::KIND;
    const NULLABLE: bool = true;

    fn cell(&self) -> Cell<'_> {
        self.as_ref().map_or(Cell::Null, V::cell)
    }

    fn of(cell: Cell<'_>) -> Option<Option<V>> {
        if cell == Cell::Null { Some(None) } else { V::of(cell).map(Some) }
    }
}

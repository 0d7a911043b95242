//! The tables of a result, made from the list of all kinds of fact: which there are, and how any fact becomes a row of its
//! own table or comes out of one.
//!
//! What not: the rows themselves, each with the name and the columns of its table (`tables.rs`).

use facts::Fact;

use crate::schema::{Column, Room, Row, RowError, RowSink, RowSource, TableHead};

macro_rules! tables {
    ($($kind:ident in $rows:ident $(at $time:ident)?;)+) => {
        /// The tables of a result, one per kind of fact and named after it. The discriminant is the tag of a row in the
        /// journal: it is part of the format.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[expect(missing_docs, reason = "each variant is named after the fact whose table it stands for")]
        pub enum Table {
            $($kind),+
        }

        impl Table {
            /// All tables, in the order of their tags.
            pub const ALL: [Table; [$(Table::$kind),+].len()] = [$(Table::$kind),+];

            /// The table that a fact belongs to.
            #[must_use]
            pub fn of(fact: &Fact) -> Table {
                match fact {
                    $(Fact::$kind(_) => Table::$kind),+
                }
            }

            fn head(self) -> &'static TableHead {
                match self {
                    $(Table::$kind => &<facts::$kind as Row>::HEAD),+
                }
            }

            /// Its columns.
            #[must_use]
            pub fn columns(self) -> &'static [Column] {
                match self {
                    $(Table::$kind => <facts::$kind as Row>::COLUMNS),+
                }
            }

            /// A row of this table, from its cells.
            pub(crate) fn take<S: RowSource>(self, row: &mut S) -> Result<Fact, RowError> {
                match self {
                    $(Table::$kind => <facts::$kind as Row>::take(row).map(Fact::$kind)),+
                }
            }
        }

        /// Gives the cells of a fact's row.
        pub(crate) fn put<S: RowSink>(fact: &Fact, row: &mut S) {
            match fact {
                $(Fact::$kind(fact) => fact.put(row)),+
            }
        }
    };
}

facts::every_kind_of_fact!(tables);

impl Table {
    /// The table's name; its file is `NAME.parquet`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.head().name
    }

    /// The table's file in the result directory.
    #[must_use]
    pub fn file_name(self) -> String {
        format!("{}.parquet", self.name())
    }

    /// The version of the format that has it first.
    #[must_use]
    pub fn since(self) -> u32 {
        self.head().since
    }

    /// How far a result may fill up before its rows are refused.
    pub(crate) fn room(self) -> Room {
        self.head().room
    }

    /// The table with this tag.
    pub(crate) fn from_tag(tag: u8) -> Option<Table> {
        Table::ALL.get(usize::from(tag)).copied()
    }
}

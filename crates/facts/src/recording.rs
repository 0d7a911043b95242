//! A whole recording in memory: what `store` opens and `analysis` reads.
//!
//! What not: reading files (`store`).

use crate::{CounterKind, Fact, LostSource, Run};

macro_rules! recording {
    ($($kind:ident in $rows:ident $(at $time:ident)?;)+) => {
        /// All facts of one result directory, by kind, each in the order in which it was written.
        #[derive(Clone, PartialEq, Debug, Default)]
        #[expect(missing_docs, reason = "each field is named after the fact it holds")]
        pub struct Recording {
            pub run: Run,
            $(pub $rows: Vec<crate::$kind>),+
        }

        impl Recording {
            /// Files one fact under its kind.
            #[expect(unreachable_patterns, reason = "the list has the total of a heap too")]
            pub fn add(&mut self, fact: Fact) {
                match fact {
                    // A process has several rows, each with what came since the one before.
                    Fact::HeapTotal(total) => total.add_to(&mut self.heap_totals),
                    $(Fact::$kind(fact) => self.$rows.push(fact)),+
                }
            }
        }
    };
}

crate::every_kind_of_fact!(recording);

impl Recording {
    /// The exact total of `kind`, when it could be counted.
    #[must_use]
    pub fn counter(&self, kind: CounterKind) -> Option<u64> {
        self.counters.iter().rev().find(|counter| counter.kind == kind).map(|counter| counter.value)
    }

    /// How many records `source` lost.
    #[must_use]
    pub fn lost(&self, source: LostSource) -> u64 {
        self.lost.iter().filter(|lost| lost.source == source).map(|lost| lost.count).sum()
    }
}

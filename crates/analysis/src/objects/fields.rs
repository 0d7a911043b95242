//! Which member of which type an access of an instruction is to.
//!
//! What for: misses by field, where debug information tells types. What not: addresses; the compiler's word is taken.

use std::collections::HashMap;

use base::{Bytes, FileOffset, ModuleId};
use facts::Recording;

use crate::stack::index;
use crate::traced::Site;

index!(/// A field of [`Fields`].
    FieldId);

/// A member of a type, or a whole value of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Field {
    /// `struct node`, `double`.
    pub type_name: String,
    /// Bytes of one value.
    pub type_bytes: Bytes,
    /// `next`; `None` for the whole value.
    pub name: Option<String>,
    /// From the value's start.
    pub offset: Bytes,
    /// Bytes of the member, or of the whole value.
    pub bytes: Bytes,
}

/// All fields that accesses are to.
pub struct Fields {
    all: Vec<Field>,
    of: HashMap<(ModuleId, FileOffset, usize), FieldId>,
}

impl Fields {
    /// Reads them.
    #[must_use]
    pub fn new(recording: &Recording) -> Fields {
        let mut fields = Fields { all: Vec::new(), of: HashMap::new() };
        let mut known: HashMap<Field, FieldId> = HashMap::new();
        for fact in &recording.access_types {
            let field = Field {
                type_name: fact.type_name.clone(),
                type_bytes: fact.type_bytes,
                name: fact.field.clone(),
                offset: fact.field_offset,
                bytes: fact.field_bytes,
            };
            let all = &mut fields.all;
            let id = *known.entry(field).or_insert_with_key(|field| {
                all.push(field.clone());
                FieldId::new(all.len() - 1)
            });
            fields.of.entry((fact.module, fact.offset, fact.access as usize)).or_insert(id);
        }
        fields
    }

    /// Whether any is known.
    #[must_use]
    pub fn any(&self) -> bool {
        !self.all.is_empty()
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, id: FieldId) -> &Field {
        &self.all[id.index()]
    }

    /// What an access is to.
    #[must_use]
    pub fn of(&self, site: &Site) -> Option<FieldId> {
        self.of.get(&(site.module, site.offset, site.number)).copied()
    }
}

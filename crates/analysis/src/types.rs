//! What debug information says about traced accesses: the type and the member that each site accesses.
//!
//! What for: rows by `type` and `field` in every view of sites, and how much of a type is used at all. What not: finding
//! that out (`symbols::types`, at the end of a recording).
//! Assumption: the facts are an allegation; one that does not fit its site is not used.

use std::collections::{BTreeMap, HashMap};

use base::Bytes;
use facts::{AccessType, Recording};

use crate::stack::index;
use crate::traced::{Site, SiteName};

index!(/// A type, or none: see [`SiteTypes::type_name`].
    TypeId);
index!(/// A member of a type, a whole type, or none: see [`SiteTypes::field_name`].
    FieldId);

/// How code without a known type is called.
const NO_TYPE: &str = "(no type known)";

/// How much of the values of a type code touches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsedBytes {
    /// Distinct bytes of one value that any counted site touches. Of an array whose element is not known, all.
    pub used: Bytes,
    /// Bytes of one value.
    pub of: Bytes,
}

/// The types of the sites of a recording.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SiteTypes {
    types: Vec<String>,
    fields: Vec<Field>,
    of_site: HashMap<SiteName, KnownType>,
}

/// A member of a type, a whole type, or none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// `node.next`, `node (whole)`, `double`, `(no type known)`.
    pub name: String,
    /// Its type.
    pub of: TypeId,
    /// Bytes of a value: the first, and one past the last.
    pub range: (u64, u64),
    /// Bytes of a value of the type; 0 where none is known.
    pub bytes: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct KnownType {
    of: TypeId,
    field: FieldId,
    /// Bytes touched of a value: the first, and one past the last.
    range: (u64, u64),
    bytes: u64,
}

impl SiteTypes {
    /// Reads those of a recording.
    #[must_use]
    pub fn read(recording: &Recording) -> SiteTypes {
        let mut found = SiteTypes {
            types: vec![NO_TYPE.to_owned()],
            fields: vec![Field {
                name: NO_TYPE.to_owned(),
                of: TypeId::new(0),
                range: (0, 0),
                bytes: 0,
            }],
            of_site: HashMap::new(),
        };
        // A type of which members are named; a number is no such.
        let mut has_members: HashMap<&str, bool> = HashMap::new();
        for fact in &recording.access_types {
            *has_members.entry(&fact.type_name).or_default() |= fact.field.is_some();
        }
        let (mut types, mut fields) = (BTreeMap::new(), BTreeMap::new());
        for fact in &recording.access_types {
            let end = fact.field_offset.0.checked_add(fact.field_bytes.0);
            let Some(end) = end.filter(|end| *end <= fact.type_bytes.0) else { continue };
            let (name, bytes) = (fact.type_name.as_str(), fact.type_bytes.0);
            let range = (fact.field_offset.0, end);
            let of = *types.entry((name, bytes)).or_insert_with(|| {
                found.types.push(name.to_owned());
                TypeId::new(found.types.len() - 1)
            });
            let shown = field_name(fact, has_members.get(name) == Some(&true));
            let field = *fields.entry((of, shown.clone())).or_insert_with(|| {
                found.fields.push(Field { name: shown, of, range, bytes });
                FieldId::new(found.fields.len() - 1)
            });
            let Ok(number) = usize::try_from(fact.access) else { continue };
            let known = KnownType { of, field, range, bytes };
            found
                .of_site
                .entry(SiteName { instruction: fact.code_address(), number })
                .or_insert(known);
        }
        found
    }

    fn known(&self, site: &Site) -> Option<&KnownType> {
        self.of_site.get(&site.name())
    }

    /// The type that a site accesses, "no type known" where there is none.
    #[must_use]
    pub fn type_of(&self, site: &Site) -> TypeId {
        self.known(site).map_or(TypeId::new(0), |known| known.of)
    }

    /// The member that a site accesses, likewise.
    #[must_use]
    pub fn field_of(&self, site: &Site) -> FieldId {
        self.known(site).map_or(FieldId::new(0), |known| known.field)
    }

    /// Whether it is a type.
    #[must_use]
    pub fn is_known(&self, of: TypeId) -> bool {
        of != TypeId::new(0)
    }

    /// `node`, `double`, `(no type known)`.
    #[must_use]
    pub fn type_name(&self, of: TypeId) -> &str {
        self.types.get(of.index()).map_or(NO_TYPE, String::as_str)
    }

    /// `node.next`, `node (whole)`, `double`, `(no type known)`.
    #[must_use]
    pub fn field_name(&self, field: FieldId) -> &str {
        self.fields.get(field.index()).map_or(NO_TYPE, |field| &field.name)
    }

    /// A member; `None` for the one of accesses without a known type.
    #[must_use]
    pub fn field(&self, field: FieldId) -> Option<&Field> {
        self.fields.get(field.index()).filter(|field| field.bytes > 0)
    }

    /// Whether any type is known.
    #[must_use]
    pub fn any(&self) -> bool {
        self.types.len() > 1
    }

    /// How many bytes of a value the given sites touch of each type that they access.
    #[must_use]
    pub fn used_bytes<'a>(
        &self,
        sites: impl IntoIterator<Item = &'a Site>,
    ) -> BTreeMap<TypeId, UsedBytes> {
        let mut ranges: BTreeMap<TypeId, (u64, Vec<(u64, u64)>)> = BTreeMap::new();
        for known in sites.into_iter().filter_map(|site| self.known(site)) {
            let entry = ranges.entry(known.of).or_insert((known.bytes, Vec::new()));
            entry.1.push(known.range);
        }
        let used = |(of, (bytes, ranges)): (TypeId, (u64, Vec<(u64, u64)>))| {
            (of, UsedBytes { used: Bytes(covered(ranges)), of: Bytes(bytes) })
        };
        ranges.into_iter().map(used).collect()
    }
}

fn field_name(fact: &AccessType, has_members: bool) -> String {
    match &fact.field {
        Some(field) => format!("{}.{field}", fact.type_name),
        None if has_members => format!("{} (whole)", fact.type_name),
        None => fact.type_name.clone(),
    }
}

/// Distinct numbers in the ranges.
fn covered(mut ranges: Vec<(u64, u64)>) -> u64 {
    ranges.sort_unstable();
    let (mut sum, mut reached) = (0, 0);
    for (from, end) in ranges {
        sum += end.saturating_sub(from.max(reached));
        reached = reached.max(end);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_ranges_count_once() {
        assert_eq!(covered(vec![(8, 16), (0, 4), (2, 10), (32, 40)]), 24);
        assert_eq!(covered(Vec::new()), 0);
    }
}

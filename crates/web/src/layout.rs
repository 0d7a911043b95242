//! Offsets of members in accessed types.
//!
//! What for: the page draws a value's bytes with the number of accesses to each. The view `objects`, grouped by `field`, has the
//! figures of members; this adds their offsets. What not: members that no traced instruction accesses.

use std::collections::BTreeMap;

use facts::Recording;
use serde_json::{Value, json};

/// `fields`: by `TYPE.MEMBER`, as the view names them, `[type, bytes of the type, offset, bytes]`. A member
/// that reaches beyond its type is damage, and left out.
pub(crate) fn layout(recording: &Recording) -> Value {
    let mut fields: BTreeMap<String, Value> = BTreeMap::new();
    for of in &recording.access_types {
        let end = of.field_offset.0.checked_add(of.field_bytes.0);
        let within = end.is_some_and(|end| end <= of.type_bytes.0);
        let Some(field) = of.field.as_ref().filter(|_| within) else { continue };
        let place = json!([of.type_name, of.type_bytes.0, of.field_offset.0, of.field_bytes.0]);
        fields.entry(format!("{}.{field}", of.type_name)).or_insert(place);
    }
    json!({ "view": "layout", "fields": fields })
}

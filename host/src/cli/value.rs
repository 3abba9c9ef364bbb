//! The parts of a JSON value as people read them.

use serde_json::Value;

/// A list's members, or the one that stands in its place.
pub(crate) fn each(value: &Value) -> impl Iterator<Item = &Value> {
    let list = match value {
        Value::Array(list) => list.as_slice(),
        Value::Null => &[],
        one => core::slice::from_ref(one),
    };
    list.iter()
}

/// A text, or an empty one where there is none.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

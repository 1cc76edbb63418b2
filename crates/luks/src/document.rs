//! Objects within the JSON document of a LUKS2 header.

use serde_json::{Map, Value};

/// An object of the document.
pub(crate) fn member<'a>(
    document: &'a mut Map<String, Value>,
    name: &str,
) -> Option<&'a mut Map<String, Value>> {
    document.get_mut(name).and_then(Value::as_object_mut)
}

/// The members of a value that is an object.
pub(crate) fn object(value: &mut Value) -> Map<String, Value> {
    value
        .as_object_mut()
        .map(std::mem::take)
        .unwrap_or_default()
}

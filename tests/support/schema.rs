//! As much of JSON Schema (draft 2020-12) as Scrim's own schemas use. A keyword that is not known
//! here is a violation itself, so that none is passed over.

use serde_json::{Map, Value};

/// Where `value` is not as `schema` says, in words; nothing when it is.
pub(crate) fn violations(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    Check {
        root: schema,
        found: &mut found,
    }
    .check(schema, value, "$");
    found
}

struct Check<'a> {
    root: &'a Value,
    found: &'a mut Vec<String>,
}

impl Check<'_> {
    fn check(&mut self, schema: &Value, value: &Value, at: &str) {
        let Some(keywords) = schema.as_object() else {
            return self.wrong(at, "is under a schema that is no object");
        };
        for (keyword, argument) in keywords {
            let holds = match keyword.as_str() {
                "$schema" | "$defs" | "title" | "description" => true,
                "$ref" => {
                    let path = argument.as_str().and_then(|path| path.strip_prefix('#'));
                    let target = path.and_then(|path| self.root.pointer(path)).cloned();
                    target.is_some_and(|target| {
                        self.check(&target, value, at);
                        true
                    })
                }
                "type" => match argument {
                    Value::Array(names) => names.iter().any(|name| is_of(name, value)),
                    name => is_of(name, value),
                },
                "enum" => argument.as_array().is_some_and(|all| all.contains(value)),
                "minimum" => value.as_f64().is_none_or(|n| Some(n) >= argument.as_f64()),
                "minItems" => length(value).is_none_or(|n| Some(n) >= argument.as_u64()),
                "maxItems" => length(value).is_none_or(|n| Some(n) <= argument.as_u64()),
                "required" => argument.as_array().is_some_and(|names| {
                    let names = names.iter().filter_map(Value::as_str);
                    value
                        .as_object()
                        .is_none_or(|members| names.clone().all(|name| members.contains_key(name)))
                }),
                "properties" => {
                    for (name, schema) in argument.as_object().into_iter().flatten() {
                        if let Some(value) = value.get(name) {
                            self.check(schema, value, &format!("{at}.{name}"));
                        }
                    }
                    true
                }
                "additionalProperties" => self.additional(keywords, argument, value, at),
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(argument, item, &format!("{at}[{index}]"));
                    }
                    true
                }
                _ => false,
            };
            if !holds {
                self.wrong(at, &format!("breaks {keyword}: {argument}"));
            }
        }
    }

    /// Members that `properties` does not name.
    fn additional(
        &mut self,
        keywords: &Map<String, Value>,
        schema: &Value,
        value: &Value,
        at: &str,
    ) -> bool {
        let named = keywords.get("properties").and_then(Value::as_object);
        let members = value.as_object().into_iter().flatten();
        let others = members.filter(|(name, _)| named.is_none_or(|n| !n.contains_key(*name)));
        if schema.is_boolean() {
            return schema == &Value::Bool(true) || others.count() == 0;
        }
        for (name, value) in others {
            self.check(schema, value, &format!("{at}.{name}"));
        }
        true
    }

    fn wrong(&mut self, at: &str, what: &str) {
        self.found.push(format!("{at} {what}"));
    }
}

fn is_of(name: &Value, value: &Value) -> bool {
    match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => false,
    }
}

fn length(value: &Value) -> Option<u64> {
    Some(value.as_array()?.len() as u64)
}

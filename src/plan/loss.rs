//! What a rewrite would drop for good: with conversion None the server changes `apiVersion` alone, and drops each field
//! that the storage version's schema doesn't have.
//!
//! Two questions are answered here: whether two schemas can lead to that at all, and whether one object would lose
//! something. Where the schemas can't, no object is looked at.

#[cfg(test)]
mod tests;

use serde_json::Value;

/// The most paths that a refusal names.
const PATHS_MAX: usize = 10;

/// One of a CRD's versions and its `openAPIV3Schema`.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionSchema {
    /// The name of the version.
    pub name: String,
    /// Its schema.
    pub schema: Value,
}

/// The versions among `stored_versions` in which an object may have fields that `storage` can't hold.
#[must_use]
pub fn lossy_versions(schemas: &[VersionSchema], stored_versions: &[String], storage: &str) -> Vec<String> {
    let schema_of = |name: &str| schemas.iter().find(|v| v.name == name).map(|v| &v.schema);
    let Some(new) = schema_of(storage) else { return Vec::new() };
    let may_lose = |name: &&String| *name != storage && schema_of(name).is_some_and(|old| may_drop(old, new));
    stored_versions.iter().filter(may_lose).cloned().collect()
}

/// Whether something that fits `old` may have a field that `new` drops.
fn may_drop(old: &Value, new: &Value) -> bool {
    if keeps_unknown(new) {
        return false;
    }
    let properties =
        |schema: &Value| schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let (old_properties, new_properties) = (properties(old), properties(new));
    let others = new.get("additionalProperties").filter(|schema| **schema != Value::Bool(false));
    let drops_property = old_properties.iter().any(|(name, old)| match new_properties.get(name).or(others) {
        Some(Value::Bool(_)) => false,
        Some(new) => may_drop(old, new),
        None => true,
    });
    let drops_others = match old.get("additionalProperties").filter(|schema| **schema != Value::Bool(false)) {
        Some(old) => others.is_none_or(|new| may_drop(old, new)),
        None => false,
    };
    let drops_items = match (old.get("items"), new.get("items")) {
        (Some(old), Some(new)) => may_drop(old, new),
        (Some(_), None) => true,
        (None, _) => false,
    };
    drops_property || drops_others || drops_items || keeps_unknown(old)
}

fn keeps_unknown(schema: &Value) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
}

/// The paths of what an object has in one version and not in another, 10 at most, and how many there are.
///
/// A changed value is no loss, nor is an explicit null: the server drops these by itself.
#[must_use]
pub fn lost_fields(before: &Value, after: &Value) -> (Vec<String>, usize) {
    let mut lost = Lost::default();
    if let (Value::Object(before), Value::Object(after)) = (before, after) {
        for (name, value) in before {
            // These are the server's own, in every version.
            if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                lost.compare(name, value, after.get(name));
            }
        }
    }
    (lost.paths, lost.total)
}

#[derive(Default)]
struct Lost {
    paths: Vec<String>,
    total: usize,
}

impl Lost {
    fn compare(&mut self, path: &str, before: &Value, after: Option<&Value>) {
        match (before, after) {
            (Value::Null, _) => {}
            (_, None) => {
                self.total += 1;
                if self.paths.len() < PATHS_MAX {
                    self.paths.push(path.to_owned());
                }
            }
            (Value::Object(before), Some(Value::Object(after))) => {
                for (name, value) in before {
                    self.compare(&format!("{path}.{name}"), value, after.get(name));
                }
            }
            (Value::Array(before), Some(Value::Array(after))) => {
                for (index, value) in before.iter().enumerate() {
                    self.compare(&format!("{path}[{index}]"), value, after.get(index));
                }
            }
            (
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_),
                Some(_),
            ) => {}
        }
    }
}

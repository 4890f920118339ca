//! What a rewrite would drop for good, or leave with a value of the wrong type: with conversion None the server changes
//! `apiVersion` alone, and drops each field that the storage version's schema doesn't have.
//!
//! Two questions are answered here: whether two schemas can lead to that at all, and whether one object would be harmed.
//! Where the schemas can't, no object is looked at.

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
fn lossy_versions(schemas: &[VersionSchema], stored_versions: &[String], storage: &str) -> Vec<String> {
    let schema_of = |name: &str| schemas.iter().find(|v| v.name == name).map(|v| &v.schema);
    let Some(new) = schema_of(storage) else { return Vec::new() };
    let may_lose = |name: &&String| *name != storage && schema_of(name).is_some_and(|old| may_drop(old, new));
    stored_versions.iter().filter(may_lose).cloned().collect()
}

/// In which versions objects may be stored, beside those that `storedVersions` names: somebody else may have trimmed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredBesides {
    /// In any that the CRD has.
    Any,
    /// In these.
    In(Vec<String>),
}

/// What may become of fields when objects are stored in the storage version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldRisks {
    /// The versions in which objects may have fields that the storage version drops.
    pub dropped_from: Vec<String>,
    /// The fields to which the storage version gives another type than a version in which objects may be stored.
    pub retyped: Vec<Retyped>,
}

/// A field of another type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retyped {
    /// The names on the way to it; `None` stands for all entries of a list or a map.
    path: Vec<Option<String>>,
    /// Its type in the storage version, in the words of the schema.
    type_: String,
}

impl FieldRisks {
    /// The risks of storing in `storage` what is stored in `stored_versions` and `besides`.
    #[must_use]
    pub fn new(
        schemas: &[VersionSchema],
        stored_versions: &[String],
        besides: &StoredBesides,
        storage: &str,
    ) -> Self {
        let may_be_stored = |name: &String| match besides {
            StoredBesides::Any => true,
            StoredBesides::In(besides) => stored_versions.contains(name) || besides.contains(name),
        };
        let stored_versions: Vec<String> =
            schemas.iter().map(|v| &v.name).filter(|name| may_be_stored(name)).cloned().collect();
        let schema_of = |name: &str| schemas.iter().find(|v| v.name == name).map(|v| &v.schema);
        let mut retyped = Vec::new();
        if let Some(new) = schema_of(storage) {
            for old in stored_versions.iter().filter(|name| *name != storage).filter_map(|n| schema_of(n)) {
                compare_types(old, new, &mut Vec::new(), &mut retyped);
            }
        }
        Self { dropped_from: lossy_versions(schemas, &stored_versions, storage), retyped }
    }

    /// Whether there are none, so that no object need be looked at.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dropped_from.is_empty() && self.retyped.is_empty()
    }

    /// The paths of what in an object is not of the type that the storage version gives it, 10 at most, and how many.
    #[must_use]
    pub fn mistyped(&self, object: &Value) -> (Vec<String>, usize) {
        let mut found = Lost::default();
        for Retyped { path, type_ } in &self.retyped {
            found.look(object, path, type_, "");
        }
        (found.paths, found.total)
    }
}

fn compare_types(old: &Value, new: &Value, path: &mut Vec<Option<String>>, found: &mut Vec<Retyped>) {
    let type_of = |schema: &Value| schema.get("type").and_then(Value::as_str).map(str::to_owned);
    if let (Some(before), Some(after)) = (type_of(old), type_of(new))
        && before != after
        && (before.as_str(), after.as_str()) != ("integer", "number")
    {
        found.push(Retyped { path: path.clone(), type_: after });
        return;
    }
    let properties = |schema: &'_ Value| schema.get("properties").and_then(Value::as_object).cloned();
    let new_properties = properties(new).unwrap_or_default();
    let steps = properties(old).unwrap_or_default().into_iter().filter_map(|(name, old)| {
        let new = new_properties.get(&name).cloned()?;
        Some((Some(name), old, new))
    });
    let entries = ["items", "additionalProperties"].into_iter().filter_map(|entries| {
        let (old, new) = (old.get(entries)?.clone(), new.get(entries)?.clone());
        Some((None, old, new))
    });
    for (step, old, new) in steps.chain(entries).collect::<Vec<_>>() {
        path.push(step);
        compare_types(&old, &new, path, found);
        path.pop();
    }
}

fn is_of_type(value: &Value, type_: &str) -> bool {
    match value {
        // The server drops it by itself.
        Value::Null => true,
        Value::Bool(_) => type_ == "boolean",
        Value::Number(number) => type_ == "number" || (type_ == "integer" && !number.is_f64()),
        Value::String(_) => type_ == "string",
        Value::Array(_) => type_ == "array",
        Value::Object(_) => type_ == "object",
    }
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
    fn note(&mut self, path: &str) {
        self.total += 1;
        if self.paths.len() < PATHS_MAX {
            self.paths.push(path.to_owned());
        }
    }

    /// Notes what is found on a way, if it is of another type.
    fn look(&mut self, value: &Value, way: &[Option<String>], type_: &str, path: &str) {
        let dot = if path.is_empty() { "" } else { "." };
        match (way, value) {
            ([], value) if is_of_type(value, type_) => {}
            ([], _) => self.note(path),
            ([Some(name), rest @ ..], value) => {
                if let Some(value) = value.get(name) {
                    self.look(value, rest, type_, &format!("{path}{dot}{name}"));
                }
            }
            ([None, rest @ ..], Value::Array(values)) => {
                for (index, value) in values.iter().enumerate() {
                    self.look(value, rest, type_, &format!("{path}[{index}]"));
                }
            }
            ([None, rest @ ..], Value::Object(values)) => {
                for (name, value) in values {
                    self.look(value, rest, type_, &format!("{path}{dot}{name}"));
                }
            }
            ([None, ..], Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {}
        }
    }

    fn compare(&mut self, path: &str, before: &Value, after: Option<&Value>) {
        match (before, after) {
            (Value::Null, _) => {}
            (_, None) => self.note(path),
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

use serde_json::{Value, json};

use super::{FieldRisks, StoredBesides, VersionSchema, is_of_type, lost_fields, may_drop};

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn object(properties: &Value) -> Value {
    json!({ "type": "object", "properties": properties })
}

#[test]
fn a_schema_may_drop_what_another_allows() {
    let text = json!({ "type": "string" });
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let map = |of: &Value| json!({ "type": "object", "additionalProperties": of });
    let list = |of: &Value| json!({ "type": "array", "items": of });
    let a = object(&json!({ "a": text }));
    let ab = object(&json!({ "a": text, "b": text }));
    let table = [
        ("the same", ab.clone(), ab.clone(), false),
        ("one field more", a.clone(), ab.clone(), false),
        ("one field less", ab.clone(), a.clone(), true),
        ("a field renamed", a.clone(), object(&json!({ "c": text })), true),
        ("other words for the same", json!({ "description": "x", "type": "string" }), text.clone(), false),
        ("less, deep down", object(&json!({ "s": ab })), object(&json!({ "s": a })), true),
        ("less, where the new one keeps what it doesn't know", ab.clone(), open.clone(), false),
        ("anything, to something known", open.clone(), ab.clone(), true),
        ("a map, to fields", map(&text), ab.clone(), true),
        ("fields, to a map of anything", ab.clone(), map(&json!(true)), false),
        ("fields, to a map", object(&json!({ "x": ab })), map(&a), true),
        ("a map of more, to a map of less", map(&ab), map(&a), true),
        ("a list of more, to a list of less", list(&ab), list(&a), true),
        ("a list, to a list", list(&a), list(&ab), false),
    ];
    for (case, old, new, expected) in table {
        assert_eq!(may_drop(&old, &new), expected, "{case}");
    }
}

#[test]
fn only_versions_that_may_be_stored_are_asked_for() {
    let schema = |name: &str, field: &str| VersionSchema {
        name: name.to_owned(),
        schema: object(&json!({ field: { "type": "string" } })),
    };
    let schemas = [schema("v1", "new"), schema("v1beta1", "old"), schema("v1alpha1", "older")];
    let besides = |of: &[&str]| StoredBesides::In(names(of));
    let table = [
        (["v1beta1", "v1"].as_slice(), besides(&[]), "v1", ["v1beta1"].as_slice()),
        (&["v1"], besides(&[]), "v1", &[]),
        (&["v1alpha1", "v1beta1"], besides(&[]), "v1alpha1", &["v1beta1"]),
        (&["v1"], besides(&["v1beta1", "v1", "v0"]), "v1", &["v1beta1"]),
        (&["v1"], StoredBesides::Any, "v1", &["v1beta1", "v1alpha1"]),
    ];
    for (stored, besides, storage, expected) in table {
        let risks = FieldRisks::new(&schemas, &names(stored), &besides, storage);
        assert_eq!(risks.dropped_from, expected, "{stored:?}, {besides:?}");
        assert_eq!(risks.is_empty(), expected.is_empty());
    }
}

#[test]
fn fields_that_are_missing_afterwards_are_named() {
    let table = [
        ("nothing", json!({ "spec": { "a": 1 } }), json!({ "spec": { "a": 1 } }), vec![]),
        ("a default came", json!({ "spec": {} }), json!({ "spec": { "b": 2 } }), vec![]),
        ("a value changed", json!({ "spec": { "a": 1 } }), json!({ "spec": { "a": 1.0 } }), vec![]),
        (
            "a field went",
            json!({ "spec": { "a": 1, "b": 2 } }),
            json!({ "spec": { "a": 1 } }),
            vec!["spec.b"],
        ),
        ("a null went", json!({ "spec": { "a": null } }), json!({ "spec": {} }), vec![]),
        ("all of it went", json!({ "spec": { "a": 1 } }), json!({}), vec!["spec"]),
        (
            "deep down in a list",
            json!({ "spec": { "l": [{ "x": 1 }, { "x": 1, "y": 2 }] } }),
            json!({ "spec": { "l": [{ "x": 1 }, { "x": 1 }] } }),
            vec!["spec.l[1].y"],
        ),
        (
            "what is the server's own",
            json!({ "apiVersion": "a/v1", "kind": "A", "metadata": { "labels": {} } }),
            json!({}),
            vec![],
        ),
    ];
    for (case, before, after, expected) in table {
        let (paths, total) = lost_fields(&before, &after);
        assert_eq!(
            (paths, total),
            (expected.iter().map(|&p| p.to_owned()).collect(), expected.len()),
            "{case}"
        );
    }
    let many: Value = (0..50).map(|n| (format!("f{n}"), json!(n))).collect::<serde_json::Map<_, _>>().into();
    let (paths, total) = lost_fields(&json!({ "spec": many }), &json!({ "spec": {} }));
    assert_eq!((paths.len(), total), (10, 50));
}

#[test]
fn a_value_that_is_not_of_its_new_type_is_found_wherever_it_is() {
    let of = |type_: &str| json!({ "type": type_ });
    let schema = |type_: &str| {
        let list = json!({ "type": "array", "items": object(&json!({ "size": of(type_) })) });
        let map = json!({ "type": "object", "additionalProperties": of(type_) });
        object(&json!({ "spec": object(&json!({ "size": of(type_), "list": list, "map": map })) }))
    };
    let risks = |before: &str, after: &str| {
        let schemas = [("v1beta1", before), ("v1", after)]
            .map(|(name, type_)| VersionSchema { name: name.to_owned(), schema: schema(type_) });
        FieldRisks::new(&schemas, &names(&["v1beta1", "v1"]), &StoredBesides::In(Vec::new()), "v1")
    };
    let old = json!({ "spec": { "size": 7, "list": [{}, { "size": 8 }], "map": { "a": 9, "b": null } } });
    let found = risks("integer", "string").mistyped(&old);
    let mut paths = found.0;
    paths.sort();
    assert_eq!((paths.join(" "), found.1), ("spec.list[1].size spec.map.a spec.size".to_owned(), 3));
    let new = json!({ "spec": { "size": "7", "list": [], "map": { "a": "9" } } });
    assert_eq!(risks("integer", "string").mistyped(&new).1, 0);
    assert_eq!(risks("object", "integer").mistyped(&json!({ "spec": { "size": { "min": 1 } } })).1, 1);
    assert!(!risks("integer", "string").is_empty());
    // What was an integer is a number as it is.
    assert!(risks("integer", "number").is_empty() && risks("string", "string").is_empty());
    assert_eq!(risks("number", "integer").mistyped(&json!({ "spec": { "size": 1.5 } })).1, 1);
}

#[test]
fn a_value_is_of_the_types_that_its_schema_may_give_it() {
    let table = [
        (json!(true), ["boolean"].as_slice()),
        (json!(7), &["number", "integer"]),
        (json!(1.5), &["number"]),
        (json!("7"), &["string"]),
        (json!([]), &["array"]),
        (json!({}), &["object"]),
        (Value::Null, &["boolean", "number", "integer", "string", "array", "object"]),
    ];
    for (value, types) in table {
        for type_ in ["boolean", "number", "integer", "string", "array", "object"] {
            assert_eq!(is_of_type(&value, type_), types.contains(&type_), "{value} as {type_}");
        }
    }
}

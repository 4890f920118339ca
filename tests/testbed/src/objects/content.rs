//! What the objects contain. Each function is given the object's number and answers with everything but its
//! `apiVersion`, `kind`, name and namespace; the same number always gives the same content.

use serde_json::{Value, json};

const COLORS: [&str; 5] = ["red", "green", "blue", "ochre", "mauve"];

/// A small widget or gadget.
#[must_use]
pub fn plain(number: usize) -> Value {
    json!({
        "metadata": { "labels": { "color": COLORS[number % COLORS.len()] } },
        "spec": {
            "size": number,
            "color": COLORS[number % COLORS.len()],
            "raw": { "parts": (0..number % 4).collect::<Vec<_>>() },
        },
    })
}

/// A widget or gadget of everything that careless rewriting loses or rounds.
#[must_use]
pub fn hard(number: usize) -> Value {
    let beyond_f64 = (1_i64 << 53) + 1 + i64::try_from(number).unwrap_or(0);
    json!({
        "metadata": {
            "annotations": {
                "example.com/empty": "",
                "example.com/json": r#"{"a":"\u0000\"\\"}"#,
                "example.com/lines": "one\ntwo\r\n\tthree ",
                "example.com/unicode": "naïve 日本語 🦀 e\u{301} \u{200f}",
            },
            "labels": { "empty": "", "number": number.to_string() },
        },
        "spec": {
            "size": beyond_f64,
            "color": "żółć 🎨",
            "raw": {
                "biggest": i64::MAX,
                "smallest": i64::MIN,
                "beyondF64": [beyond_f64, -beyond_f64],
                "floats": [0.1, 1e-7, 1.797_693_134_862_315_7e308, 5e-324, -2.5, 1e21],
                "null": null,
                "nulls": [null, { "in": { "depth": null } }],
                "emptyMap": {},
                "emptyList": [],
                "emptyText": "",
                "": "a key of no letters",
                "dotted.key/with~signs": true,
                "ключ": "значение",
                "numberAsText": "007",
            },
        },
    })
}

/// A CronTab at v1beta1.
#[must_use]
pub fn crontab(number: usize) -> Value {
    json!({
        "spec": {
            "hostPort": format!("node-{number}.example.com:{}", port(number)),
            "cronSpec": format!("*/{} * * * *", number % 59 + 1),
            "image": "example.com/backup:1.2",
            "replicas": number % 3 + 1,
        },
    })
}

/// Port of the CronTab of that number.
#[must_use]
pub fn port(number: usize) -> usize {
    1024 + number % 60_000
}

//! The CronTab of the Kubernetes documentation: two versions that differ, so that a webhook must convert.

use super::{Conversion, Fixture, Kind, Version};
use serde_json::{Map, Value, json};

/// Group of the CronTab in the Kubernetes documentation.
pub(super) const GROUP: &str = "example.com";

impl Fixture {
    /// `crontabs.example.com`: namespaced, v1beta1 (stored) and v1, both served, conversion as given.
    ///
    /// v1beta1 has `spec.hostPort`, v1 has `spec.host` and `spec.port`; the rest is the same in both.
    #[must_use]
    pub fn crontabs(conversion: Conversion) -> Self {
        Self::crontabs_in(GROUP, conversion)
    }

    /// As [`Fixture::crontabs`], in another group.
    #[must_use]
    pub fn crontabs_in(group: &str, conversion: Conversion) -> Self {
        let old = spec([("hostPort", json!({ "type": "string" }))]);
        // Empty strings are kept out, as "host:" could not say whether the port was empty or absent.
        let part = json!({ "type": "string", "minLength": 1 });
        let new = spec([("host", part.clone()), ("port", part)]);
        Self {
            kind: Kind { group: group.to_owned(), kind: "CronTab", plural: "crontabs", namespaced: true },
            versions: vec![
                Version { name: "v1beta1".to_owned(), served: true, spec: old },
                Version { name: "v1".to_owned(), served: true, spec: new },
            ],
            storage: "v1beta1".to_owned(),
            status: false,
            conversion,
        }
    }
}

fn spec<const N: usize>(own: [(&str, Value); N]) -> Map<String, Value> {
    let shared = [
        ("cronSpec", json!({ "type": "string" })),
        ("image", json!({ "type": "string" })),
        ("replicas", json!({ "type": "integer" })),
    ];
    shared.into_iter().chain(own).map(|(name, schema)| (name.to_owned(), schema)).collect()
}

//! Widgets and gadgets: two versions of the same shape, conversion by changing `apiVersion`.

use super::{Conversion, Fixture, Kind, Version};
use serde_json::{Map, Value, json};

impl Fixture {
    /// `widgets.<group>`: namespaced, v1alpha1 (stored) and v1, both served, with the status subresource.
    #[must_use]
    pub fn widgets(group: &str) -> Self {
        Self::of(Kind { group: group.to_owned(), kind: "Widget", plural: "widgets", namespaced: true })
    }

    /// `gadgets.<group>`: as widgets, but cluster-scoped.
    #[must_use]
    pub fn gadgets(group: &str) -> Self {
        Self::of(Kind { group: group.to_owned(), kind: "Gadget", plural: "gadgets", namespaced: false })
    }

    fn of(kind: Kind) -> Self {
        let version = |name: &str| Version { name: name.to_owned(), served: true, spec: spec() };
        Self {
            kind,
            versions: vec![version("v1alpha1"), version("v1")],
            storage: "v1alpha1".to_owned(),
            status: true,
            conversion: Conversion::None,
        }
    }
}

fn spec() -> Map<String, Value> {
    Map::from_iter([
        ("size".to_owned(), json!({ "type": "integer", "format": "int64" })),
        ("color".to_owned(), json!({ "type": "string" })),
        ("raw".to_owned(), json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })),
    ])
}

#[cfg(test)]
mod tests {
    use super::Fixture;
    use serde_json::json;

    #[test]
    fn one_version_stores_and_both_are_served() {
        let crd = Fixture::widgets("a.example.com").to_json();
        assert_eq!(crd["metadata"]["name"], "widgets.a.example.com");
        assert_eq!(crd["spec"]["scope"], "Namespaced");
        let flags: Vec<_> = crd["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|version| (&version["name"], &version["served"], &version["storage"]))
            .collect();
        assert_eq!(
            flags,
            [(&json!("v1alpha1"), &json!(true), &json!(true)), (&json!("v1"), &json!(true), &json!(false))]
        );
    }

    #[test]
    fn a_field_is_dropped_from_one_version_only() {
        let crd = Fixture::widgets("a.example.com").without_field("v1", "color").to_json();
        let color = |index: usize| {
            crd["spec"]["versions"][index]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
                .get("color")
                .is_some()
        };
        assert!(color(0));
        assert!(!color(1));
    }

    #[test]
    fn the_status_subresource_can_be_left_out() {
        let crd = Fixture::gadgets("a.example.com").without_status().to_json();
        assert_eq!(crd["spec"]["scope"], "Cluster");
        assert_eq!(crd["spec"]["versions"][0]["subresources"], json!({}));
    }
}

use serde_json::json;

use super::*;

fn rights() -> Rights {
    let role = |kind: &str, namespace: Option<&str>, rules: Value| json!({ "kind": kind, "metadata": { "name": "restow", "namespace": namespace }, "rules": rules });
    let binding = |kind: &str, namespace: Option<&str>, subject: &str| {
        json!({
            "kind": format!("{kind}Binding"), "metadata": { "namespace": namespace },
            "roleRef": { "kind": kind, "name": "restow" },
            "subjects": [{ "kind": "ServiceAccount", "name": subject, "namespace": "restow-system" }],
        })
    };
    let allow = |group: &str, resource: &str, names: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": [resource], "resourceNames": names, "verbs": verbs });
    let crds = "apiextensions.k8s.io";
    let manifests = [
        role(
            "ClusterRole",
            None,
            json!([
                allow(crds, "customresourcedefinitions", &[], &["get", "list"]),
                allow("restow.dev", "storagemigrations", &[], &["list"]),
            ]),
        ),
        binding("ClusterRole", None, "restow"),
        role("Role", Some("restow-system"), json!([allow("", "secrets", &["key"], &["get"])])),
        binding("Role", Some("restow-system"), "restow"),
        role("Role", Some("elsewhere"), json!([allow("", "secrets", &[], &["delete"])])),
        binding("Role", Some("elsewhere"), "somebody"),
    ];
    let grant = role(
        "ClusterRole",
        None,
        json!([
            allow("example.com", "crontabs", &[], &["patch"]),
            allow(crds, "customresourcedefinitions/status", &["crontabs.example.com"], &["patch"]),
        ]),
    );
    Rights::new(&manifests, &[grant])
}

fn ask(rights: &mut Rights, verb: &str, group: &str, resource: &str, [namespace, name]: [&str; 2]) {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let entry = json!({
        "stage": "ResponseComplete", "verb": verb, "requestURI": "/", "user": { "username": "x" }, "userAgent": "restow/1",
        "objectRef": {
            "apiGroup": group, "resource": resource, "subresource": subresource, "namespace": namespace, "name": name,
        },
        "requestReceivedTimestamp": "2026-01-01T00:00:00Z", "stageTimestamp": "2026-01-01T00:00:00Z",
    });
    rights.take(&serde_json::from_value(entry).expect("an entry"));
}

const CRDS: &str = "apiextensions.k8s.io";

#[test]
fn what_is_granted_and_used_is_neither_lacking_nor_unused() {
    let mut rights = rights();
    ask(&mut rights, "get", CRDS, "customresourcedefinitions", ["", "a"]);
    ask(&mut rights, "list", CRDS, "customresourcedefinitions", ["", ""]);
    ask(&mut rights, "get", "", "secrets", ["restow-system", "key"]);
    ask(&mut rights, "list", "restow.dev", "storagemigrations", ["", ""]);
    ask(&mut rights, "patch", "some.example.com", "widgets", ["default", "w"]);
    ask(&mut rights, "patch", "restow.dev", "storagemigrations", ["", "a"]);
    ask(&mut rights, "patch", CRDS, "customresourcedefinitions/status", ["", "widgets.some.example.com"]);
    ask(&mut rights, "create", "authorization.k8s.io", "selfsubjectaccessreviews", ["", ""]);
    assert_eq!((rights.lacking(), rights.unused(), rights.requests()), (vec![], vec![], 8));
}

#[test]
fn what_is_granted_and_not_used_is_told() {
    let mut rights = rights();
    ask(&mut rights, "get", CRDS, "customresourcedefinitions", ["", "a"]);
    let unused = rights.unused();
    assert_eq!(unused.len(), 5, "{unused:?}");
    assert!(unused[0].starts_with("list customresourcedefinitions.apiextensions.k8s.io"), "{unused:?}");
    assert!(unused[3].starts_with("patch the target"), "{unused:?}");
}

#[test]
fn what_is_used_and_not_granted_is_told() {
    for (verb, group, resource, object) in [
        ("watch", CRDS, "customresourcedefinitions", ["", ""]),
        ("get", "", "secrets", ["restow-system", "another"]),
        ("get", "", "secrets", ["default", "key"]),
        ("delete", "", "secrets", ["elsewhere", "key"]),
        ("get", "some.example.com", "widgets", ["default", "w"]),
        ("delete", "restow.dev", "storagemigrations", ["", "a"]),
        ("patch", "restow.dev", "storagemigrations/status", ["", "a"]),
        ("patch", "some.example.com", "widgets/status", ["default", "w"]),
        ("create", "authorization.k8s.io", "subjectaccessreviews", ["", ""]),
    ] {
        let mut rights = rights();
        ask(&mut rights, verb, group, resource, object);
        assert_eq!(rights.lacking().len(), 1, "{verb} {resource}");
        assert!(rights.lacking()[0].starts_with(&format!("{verb} {resource}.")), "{:?}", rights.lacking());
    }
}

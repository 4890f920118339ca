//! From one version of an object to another: a pure function of the object and the version wanted.

use serde_json::{Map, Value, json};

/// Which objects the webhook knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Any object; only `apiVersion` is changed.
    ApiVersionOnly,
    /// The CronTab of the Kubernetes documentation: `hostPort` in v1beta1, `host` and `port` in v1.
    CronTab,
}

/// Why an object can't be had at the version wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {why}")]
pub struct Unconvertible {
    /// Name of the object.
    pub object: String,
    /// What is wrong with it.
    pub why: String,
}

impl Mapping {
    /// The same object at another version.
    ///
    /// Nothing is lost: converting back gives the object one came from. A part of an object (the server sends such
    /// for server-side apply) is converted as far as it goes.
    ///
    /// # Errors
    /// If the object has a value that the wanted version can't express.
    pub fn convert(self, object: &Value, desired_api_version: &str) -> Result<Value, Unconvertible> {
        let mut converted = object.clone();
        let from = object["apiVersion"].as_str().unwrap_or_default();
        if let (Self::CronTab, Some(spec)) = (self, converted.get_mut("spec").and_then(Value::as_object_mut))
        {
            convert_crontab(spec, version(from), version(desired_api_version)).map_err(|why| {
                Unconvertible { object: object["metadata"]["name"].as_str().unwrap_or("?").to_owned(), why }
            })?;
        }
        converted["apiVersion"] = json!(desired_api_version);
        Ok(converted)
    }
}

fn version(api_version: &str) -> &str {
    api_version.rsplit('/').next().unwrap_or(api_version)
}

fn convert_crontab(spec: &mut Map<String, Value>, from: &str, to: &str) -> Result<(), String> {
    match (from, to) {
        ("v1beta1", "v1") => split_host_port(spec),
        ("v1", "v1beta1") => join_host_port(spec),
        (same, wanted) if same == wanted => Ok(()),
        (from, to) => Err(format!("no conversion from {from} to {to}")),
    }
}

/// An empty half stands for one that is absent.
fn split_host_port(spec: &mut Map<String, Value>) -> Result<(), String> {
    let Some(joined) = spec.remove("hostPort") else { return Ok(()) };
    let halves = joined.as_str().and_then(|text| text.rsplit_once(':'));
    let (host, port) = halves
        .filter(|(host, port)| is_host(host) && !(host.is_empty() && port.is_empty()))
        .ok_or_else(|| format!("hostPort {joined} is not host:port"))?;
    let parts = [("host", host), ("port", port)].into_iter().filter(|(_, value)| !value.is_empty());
    spec.extend(parts.map(|(name, value)| (name.to_owned(), json!(value))));
    Ok(())
}

fn join_host_port(spec: &mut Map<String, Value>) -> Result<(), String> {
    let (host, port) = (spec.remove("host"), spec.remove("port"));
    if host.is_none() && port.is_none() {
        return Ok(());
    }
    let text = |value: Option<Value>| match value {
        None => Ok(String::new()),
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        Some(other) => Err(format!("{other} is neither host nor port")),
    };
    let (host, port) = (text(host)?, text(port)?);
    if !is_host(&host) || port.contains(':') {
        return Err(format!("host {host:?} and port {port:?} can't be joined without loss"));
    }
    spec.insert("hostPort".to_owned(), json!(format!("{host}:{port}")));
    Ok(())
}

/// A colon belongs to the address only within brackets, as in `[::1]`.
fn is_host(host: &str) -> bool {
    !host.contains(':') || (host.starts_with('[') && host.ends_with(']'))
}

#[cfg(test)]
mod tests {
    use super::Mapping;
    use serde_json::{Value, json};

    fn crontab(version: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": format!("example.com/{version}"),
            "kind": "CronTab",
            "metadata": { "name": "nightly", "labels": { "a": "b" } },
            "spec": spec,
        })
    }

    #[test]
    fn crontabs_convert_both_ways_without_loss() {
        let table = [
            (json!({ "hostPort": "localhost:1234" }), json!({ "host": "localhost", "port": "1234" })),
            (json!({ "hostPort": "[::1]:80" }), json!({ "host": "[::1]", "port": "80" })),
            (json!({ "hostPort": "localhost:" }), json!({ "host": "localhost" })),
            (json!({ "hostPort": ":80" }), json!({ "port": "80" })),
            (json!({ "replicas": 3 }), json!({ "replicas": 3 })),
            (json!({}), json!({})),
        ];
        for (old, new) in table {
            let (old, new) = (crontab("v1beta1", &old), crontab("v1", &new));
            assert_eq!(Mapping::CronTab.convert(&old, "example.com/v1").as_ref(), Ok(&new));
            assert_eq!(Mapping::CronTab.convert(&new, "example.com/v1beta1").as_ref(), Ok(&old));
            assert_eq!(Mapping::CronTab.convert(&new, "example.com/v1").as_ref(), Ok(&new));
        }
    }

    #[test]
    fn what_the_wanted_version_cannot_express_is_refused() {
        let table = [
            ("v1beta1", json!({ "hostPort": "8080" }), "v1", r#"hostPort "8080" is not host:port"#),
            ("v1beta1", json!({ "hostPort": "" }), "v1", r#"hostPort "" is not host:port"#),
            ("v1beta1", json!({ "hostPort": ":" }), "v1", r#"hostPort ":" is not host:port"#),
            ("v1beta1", json!({ "hostPort": "a:b:c" }), "v1", r#"hostPort "a:b:c" is not host:port"#),
            ("v1beta1", json!({ "hostPort": 80 }), "v1", "hostPort 80 is not host:port"),
            ("v1", json!({ "host": "", "port": "1" }), "v1beta1", r#""" is neither host nor port"#),
            (
                "v1",
                json!({ "host": "a:b" }),
                "v1beta1",
                r#"host "a:b" and port "" can't be joined without loss"#,
            ),
            ("v1", json!({}), "v2", "no conversion from v1 to v2"),
        ];
        for (from, spec, to, why) in table {
            let refused = Mapping::CronTab.convert(&crontab(from, &spec), &format!("example.com/{to}"));
            assert_eq!(refused.map_err(|error| error.to_string()), Err(format!("nightly: {why}")));
        }
    }

    #[test]
    fn other_objects_keep_everything_but_their_version() {
        let widget =
            json!({ "apiVersion": "a/v1alpha1", "spec": { "hostPort": "x", "none": null, "n": i64::MIN } });
        let converted = Mapping::ApiVersionOnly.convert(&widget, "a/v1");
        let expected =
            json!({ "apiVersion": "a/v1", "spec": { "hostPort": "x", "none": null, "n": i64::MIN } });
        assert_eq!(converted, Ok(expected));
    }

    #[test]
    fn a_fragment_without_metadata_or_spec_is_converted() {
        let fragment = json!({ "apiVersion": "example.com/v1beta1", "kind": "CronTab" });
        let expected = json!({ "apiVersion": "example.com/v1", "kind": "CronTab" });
        assert_eq!(Mapping::CronTab.convert(&fragment, "example.com/v1"), Ok(expected));
    }
}

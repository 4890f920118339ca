//! What a conversion webhook may do wrong.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::Unconvertible;

/// A fault of a conversion webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Every request is answered with this HTTP status.
    Status(u16),
    /// Every answer comes so much later.
    Slow(Duration),
    /// HTTP 500 for what has no `metadata.name`: parts of objects, which the server sends for server-side apply.
    FailFragments,
    /// HTTP 500 for whatever has this name in it, as of a webhook that crashes on it.
    CrashOn(String),
    /// One object can't be converted.
    Refuse {
        /// Name of the object.
        name: String,
        /// What the webhook says.
        why: String,
    },
    /// The spec as it was before goes into an annotation of what is converted to this version.
    AnnotateSpec {
        /// The version.
        to: String,
    },
    /// What is converted to this version grows.
    Grow {
        /// The version.
        to: String,
        /// By how much.
        bytes: usize,
    },
}

/// The annotation of [`Fault::AnnotateSpec`].
const SPEC_ANNOTATION: &str = "example.com/spec-before";

impl Fault {
    /// The object of this name can't be converted, for this reason.
    #[must_use]
    pub fn refuse(name: &str, why: &str) -> Self {
        Self::Refuse { name: name.to_owned(), why: why.to_owned() }
    }

    /// What happens before any object is looked at.
    pub(super) async fn meet(&self, objects: &[Value]) -> Result<(), StatusCode> {
        match self {
            Self::Status(code) => {
                Err(StatusCode::from_u16(*code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
            }
            Self::Slow(delay) => {
                tokio::time::sleep(*delay).await;
                Ok(())
            }
            Self::FailFragments if objects.iter().any(|object| object["metadata"]["name"].is_null()) => {
                Err(StatusCode::INTERNAL_SERVER_ERROR)
            }
            Self::CrashOn(name)
                if objects.iter().any(|object| object["metadata"]["name"] == name.as_str()) =>
            {
                Err(StatusCode::INTERNAL_SERVER_ERROR)
            }
            Self::FailFragments
            | Self::CrashOn(_)
            | Self::Refuse { .. }
            | Self::AnnotateSpec { .. }
            | Self::Grow { .. } => Ok(()),
        }
    }

    /// What becomes of `converted`, which was `object` before.
    pub(super) fn spoil(&self, object: &Value, mut converted: Value) -> Result<Value, Unconvertible> {
        match self {
            Self::Refuse { name, why } if object["metadata"]["name"] == name.as_str() => {
                Err(Unconvertible { object: name.clone(), why: why.clone() })
            }
            Self::AnnotateSpec { to } if is_at(&converted, to) => {
                converted["metadata"]["annotations"][SPEC_ANNOTATION] = json!(object["spec"].to_string());
                Ok(converted)
            }
            Self::Grow { to, bytes } if is_at(&converted, to) && converted["spec"].is_object() => {
                converted["spec"]["raw"]["padding"] = json!("x".repeat(*bytes));
                Ok(converted)
            }
            Self::Status(_)
            | Self::Slow(_)
            | Self::FailFragments
            | Self::CrashOn(_)
            | Self::Refuse { .. }
            | Self::AnnotateSpec { .. }
            | Self::Grow { .. } => Ok(converted),
        }
    }
}

fn is_at(object: &Value, version: &str) -> bool {
    object["apiVersion"].as_str().is_some_and(|it| it.rsplit('/').next() == Some(version))
}

#[cfg(test)]
mod tests {
    use super::{Fault, StatusCode};
    use serde_json::{Value, json};

    fn widget(name: &str) -> Value {
        json!({ "apiVersion": "a/v1", "metadata": { "name": name }, "spec": { "size": 1 } })
    }

    #[test]
    fn one_name_is_refused_and_no_other() {
        let fault = Fault::refuse("a", "not today");
        let said = fault.spoil(&widget("a"), widget("a")).map_err(|error| error.to_string());
        assert_eq!(said, Err("a: not today".to_owned()));
        assert_eq!(fault.spoil(&widget("b"), widget("b")), Ok(widget("b")));
    }

    #[test]
    fn the_spec_goes_into_an_annotation_in_one_direction() {
        let spoilt = |to: &str| Fault::AnnotateSpec { to: to.to_owned() }.spoil(&widget("a"), widget("a"));
        let annotated = spoilt("v1").unwrap_or_default();
        assert_eq!(annotated["metadata"]["annotations"]["example.com/spec-before"], r#"{"size":1}"#);
        assert_eq!(spoilt("v2"), Ok(widget("a")));
    }

    #[tokio::test]
    async fn fragments_fail_and_whole_objects_do_not() {
        let fragment = json!({ "apiVersion": "a/v1" });
        let fault = Fault::FailFragments;
        assert_eq!(fault.meet(&[fragment]).await, Err(StatusCode::INTERNAL_SERVER_ERROR));
        assert_eq!(fault.meet(&[widget("a")]).await, Ok(()));
        assert_eq!(Fault::Status(503).meet(&[]).await, Err(StatusCode::SERVICE_UNAVAILABLE));
    }
}

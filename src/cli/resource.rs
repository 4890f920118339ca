//! A resource as it is typed.

use std::str::FromStr;

use crate::api::TargetResource;

/// `<plural>.<group>`.
#[derive(Clone, Debug)]
pub(super) struct Resource(pub(super) TargetResource);

impl FromStr for Resource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (resource, group) = text
            .split_once('.')
            .filter(|(resource, group)| !resource.is_empty() && !group.is_empty())
            .ok_or("expected <plural>.<group>, for example crontabs.example.com")?;
        if text.contains('/') || text.chars().any(char::is_uppercase) {
            return Err(
                "expected the plural name in lower case, without a version or a subresource".to_owned()
            );
        }
        Ok(Self(TargetResource { group: group.to_owned(), resource: resource.to_owned() }))
    }
}

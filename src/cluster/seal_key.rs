//! The key that seals checkpoints: a Secret in restow's own namespace, made by whichever process needs it first.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::{GetParams, PostParams};
use kube::core::Request;

use super::Cluster;
use crate::plan::Failure;

/// The name of the Secret.
const NAME: &str = "restow-checkpoint-key";
/// Where in it the key is.
const FIELD: &str = "key";

/// The key of this installation.
#[derive(Clone)]
pub struct SealKey(pub(crate) [u8; 64]);

impl Cluster {
    /// Reads the key, or makes it if there is none yet.
    ///
    /// # Errors
    /// If the server could not answer, restow lacks the right, or the Secret holds something else.
    ///
    /// # Access
    /// `get` on the `secrets` `restow-checkpoint-key`, and `create` on `secrets`, in restow's own namespace.
    pub async fn seal_key(&self, namespace: &str) -> Result<SealKey, Failure> {
        let path = Request::new(Secret::url_path(&(), Some(namespace)));
        match self.call::<Secret>(path.get(NAME, &GetParams::default())).await {
            Ok(answer) => return key_of(&answer.body),
            Err(failure) if failure.code == Some(404) => {}
            Err(failure) => return Err(failure),
        }
        let body =
            serde_json::to_vec(&fresh()?).map_err(|error| failed(format!("write a Secret: {error}")))?;
        match self.call::<Secret>(path.create(&PostParams::default(), body)).await {
            Ok(answer) => key_of(&answer.body),
            // Somebody else was faster.
            Err(failure) if failure.code == Some(409) => {
                key_of(&self.call::<Secret>(path.get(NAME, &GetParams::default())).await?.body)
            }
            Err(failure) => Err(failure),
        }
    }
}

fn fresh() -> Result<Secret, Failure> {
    let mut key = [0; 64];
    getrandom::fill(&mut key).map_err(|error| failed(format!("no random numbers: {error}")))?;
    Ok(Secret {
        metadata: ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([(FIELD.to_owned(), ByteString(key.to_vec()))])),
        immutable: Some(true),
        ..Secret::default()
    })
}

fn key_of(secret: &Secret) -> Result<SealKey, Failure> {
    let bytes = secret.data.as_ref().and_then(|data| data.get(FIELD)).map(|bytes| bytes.0.as_slice());
    let key = bytes.and_then(|bytes| bytes.try_into().ok());
    key.map(SealKey).ok_or_else(|| {
        failed(format!(
            "the Secret {NAME} holds no key of 64 bytes in {FIELD}: delete it, and a new one is made"
        ))
    })
}

fn failed(message: String) -> Failure {
    Failure { message, ..Failure::default() }
}

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealKey").finish_non_exhaustive()
    }
}

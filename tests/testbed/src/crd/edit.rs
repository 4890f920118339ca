//! What an administrator does to a CustomResourceDefinition on a live server.
//!
//! Edits are read, change, replace; a conflict (the server itself writes to new CRDs) is tried again. Functions
//! return when the server has accepted the write: how far its handlers lag behind is for the product to find out.

use super::{Conversion, Fixture, Kind};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, Error as KubeError};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Who writes, in `managedFields`.
const FIELD_MANAGER: &str = "testbed";
/// A new CRD is served within a second or two, on a machine under load within several.
const SERVED_WITHIN: Duration = Duration::from_mins(1);
/// Between two looks at whether a new resource is served.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Each conflict means that somebody else's write went through; nobody writes this often.
const ATTEMPTS_MAX: usize = 20;

/// What may go wrong with a CRD.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server did not accept it.
    #[error("apply CRD {crd}")]
    Apply {
        /// Name of the CRD.
        crd: String,
        /// What the client said.
        source: Box<KubeError>,
    },
    /// It could not be read.
    #[error("read CRD {crd}")]
    Read {
        /// Name of the CRD.
        crd: String,
        /// What the client said.
        source: Box<KubeError>,
    },
    /// An edit was not accepted.
    #[error("edit CRD {crd}")]
    Edit {
        /// Name of the CRD.
        crd: String,
        /// What the client said.
        source: Box<KubeError>,
    },
    /// The conversion does not parse as one.
    #[error("describe the conversion of CRD {crd}")]
    Conversion {
        /// Name of the CRD.
        crd: String,
        /// What serde said.
        source: serde_json::Error,
    },
    /// It was accepted, but its objects can't be listed.
    #[error("CRD {crd} is not served after {} s", SERVED_WITHIN.as_secs())]
    NotServed {
        /// Name of the CRD.
        crd: String,
    },
}

impl Error {
    /// The server's words, if it found an edited CRD invalid.
    fn refusal(&self) -> Option<String> {
        let Self::Edit { source, .. } = self else { return None };
        let KubeError::Api(status) = &**source else { return None };
        (status.code == 422).then(|| status.message.clone())
    }
}

/// What the server said to the removal of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The version is gone.
    Accepted,
    /// It stays, for the reason in the server's own words.
    Refused(String),
}

/// Creates or updates the CRD of a fixture, and waits until every served version can be listed.
///
/// # Errors
/// If the server refuses it or doesn't serve it in time.
pub async fn apply(client: &Client, fixture: &Fixture) -> Result<Kind, Error> {
    let kind = fixture.kind();
    let crd = kind.crd_name();
    let crds = api(client);
    let params = PatchParams::apply(FIELD_MANAGER).force();
    crds.patch(&crd, &params, &Patch::Apply(fixture.to_json()))
        .await
        .map_err(|source| Error::Apply { crd: crd.clone(), source: source.into() })?;
    let served = async {
        await_condition(crds.clone(), &crd, conditions::is_crd_established()).await.ok();
        for version in fixture.versions.iter().filter(|version| version.served) {
            let objects = kind.api(client, &version.name, None);
            while objects.list_metadata(&ListParams::default().limit(1)).await.is_err_and(not_there_yet) {
                sleep(LOOK_EVERY).await;
            }
        }
    };
    timeout(SERVED_WITHIN, served).await.map_err(|_| Error::NotServed { crd })?;
    Ok(kind.clone())
}

/// Moves the storage flag to `version`.
///
/// # Errors
/// If the CRD can't be read or the server refuses the edit.
pub async fn move_storage(client: &Client, crd: &str, version: &str) -> Result<(), Error> {
    edit(client, crd, |spec| {
        for it in &mut spec.versions {
            it.storage = it.name == version;
        }
    })
    .await
}

/// Replaces the conversion.
///
/// # Errors
/// If the CRD can't be read or the server refuses the edit.
pub async fn set_conversion(client: &Client, crd: &str, conversion: &Conversion) -> Result<(), Error> {
    let conversion: apiextensions::CustomResourceConversion = serde_json::from_value(conversion.to_json())
        .map_err(|source| Error::Conversion { crd: crd.to_owned(), source })?;
    edit(client, crd, |spec| spec.conversion = Some(conversion.clone())).await
}

/// Describes the schemas in other words: a change of the spec that changes no object.
///
/// # Errors
/// If the CRD can't be read or the server refuses the edit.
pub async fn describe(client: &Client, crd: &str, text: &str) -> Result<(), Error> {
    edit(client, crd, |spec| {
        for version in &mut spec.versions {
            let schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
            if let Some(schema) = schema {
                schema.description = Some(text.to_owned());
            }
        }
    })
    .await
}

/// Takes `version` out of `spec.versions`.
///
/// # Errors
/// If the answer is neither yes nor the refusal of an invalid CRD.
pub async fn remove_version(client: &Client, crd: &str, version: &str) -> Result<Removal, Error> {
    match edit(client, crd, |spec| spec.versions.retain(|it| it.name != version)).await {
        Ok(()) => Ok(Removal::Accepted),
        Err(error) => error.refusal().map(Removal::Refused).ok_or(error),
    }
}

/// `status.storedVersions`.
///
/// # Errors
/// If the CRD can't be read.
pub async fn stored_versions(client: &Client, crd: &str) -> Result<Vec<String>, Error> {
    let status = read(client, crd).await?.status;
    Ok(status.and_then(|status| status.stored_versions).unwrap_or_default())
}

async fn edit(
    client: &Client,
    crd: &str,
    change: impl Fn(&mut apiextensions::CustomResourceDefinitionSpec),
) -> Result<(), Error> {
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let mut attempts_left = ATTEMPTS_MAX;
    loop {
        attempts_left -= 1;
        let mut edited = read(client, crd).await?;
        change(&mut edited.spec);
        match api(client).replace(crd, &params, &edited).await {
            Ok(_) => return Ok(()),
            Err(KubeError::Api(status)) if status.code == 409 && attempts_left > 0 => {}
            Err(source) => return Err(Error::Edit { crd: crd.to_owned(), source: source.into() }),
        }
    }
}

async fn read(client: &Client, crd: &str) -> Result<apiextensions::CustomResourceDefinition, Error> {
    let read = api(client).get(crd).await;
    read.map_err(|source| Error::Read { crd: crd.to_owned(), source: source.into() })
}

fn api(client: &Client) -> Api<apiextensions::CustomResourceDefinition> {
    Api::all(client.clone())
}

/// A new resource is 404 until the server's handler has seen its CRD, and 503 while a handler is replaced.
fn not_there_yet(error: KubeError) -> bool {
    matches!(error, KubeError::Api(status) if matches!(status.code, 404 | 503))
}

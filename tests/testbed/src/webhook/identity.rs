//! Who the webhook is: a certificate authority of its own, and a certificate for loopback.

use super::Error;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::sync::Arc;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// A CA's certificate and the TLS configuration of the server it vouches for. The CA's key is not kept.
#[derive(Clone, Debug)]
pub struct Identity {
    ca_pem: String,
    tls: Arc<ServerConfig>,
}

impl Identity {
    /// Makes a new one, for 127.0.0.1 and localhost.
    ///
    /// # Errors
    /// If the certificates can't be made or used.
    pub fn generate() -> Result<Self, Error> {
        let ca = authority().map_err(Error::Certificates)?;
        let key = KeyPair::generate().map_err(Error::Certificates)?;
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let certificate = CertificateParams::new(names)
            .and_then(|params| params.signed_by(&key, &ca))
            .map_err(Error::Certificates)?;
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| {
                config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key)
            })
            .map_err(Error::Tls)?;
        Ok(Self { ca_pem: ca.pem(), tls: Arc::new(tls) })
    }

    /// The CA's certificate: PEM in base64, as `caBundle` wants it.
    #[must_use]
    pub fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.ca_pem)
    }

    /// What the listener needs.
    #[must_use]
    pub fn tls(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.tls)
    }
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "testbed conversion webhook");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

//! Who the webhook is: a certificate authority of its own, and a certificate for loopback.

use super::Error;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::sync::Arc;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The names of a webhook that the API server of the same machine calls.
const LOOPBACK: [&str; 2] = ["127.0.0.1", "localhost"];

/// The TLS configuration of a server, and whom its clients are to trust. The CA's key is not kept.
#[derive(Clone, Debug)]
pub struct Identity {
    ca_pem: String,
    tls: Arc<ServerConfig>,
}

/// An identity on its way to a server elsewhere, all PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The CA's certificate.
    pub ca: String,
    /// The server's certificate.
    pub certificate: String,
    /// The server's key.
    pub key: String,
}

impl Issued {
    /// Makes a new CA, and a certificate of it for these names and addresses.
    ///
    /// # Errors
    /// If the certificates can't be made.
    pub fn new(names: &[&str]) -> Result<Self, Error> {
        issue(names).map_err(Error::Certificates)
    }

    /// The CA's certificate: PEM in base64, as `caBundle` wants it.
    #[must_use]
    pub fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.ca)
    }
}

impl Identity {
    /// Makes a new one, for 127.0.0.1 and localhost.
    ///
    /// # Errors
    /// If the certificates can't be made or used.
    pub fn generate() -> Result<Self, Error> {
        Self::of(&Issued::new(&LOOPBACK)?)
    }

    /// That which was issued elsewhere.
    ///
    /// # Errors
    /// If it is no PEM, or the certificate and the key don't belong together.
    pub fn of(issued: &Issued) -> Result<Self, Error> {
        let certificate =
            CertificateDer::from_pem_slice(issued.certificate.as_bytes()).map_err(Error::Read)?;
        let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).map_err(Error::Read)?;
        let tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(vec![certificate], key))
            .map_err(Error::Tls)?;
        Ok(Self { ca_pem: issued.ca.clone(), tls: Arc::new(tls) })
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

fn issue(names: &[&str]) -> Result<Issued, rcgen::Error> {
    let (ca, key) = (authority()?, KeyPair::generate()?);
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let certificate = CertificateParams::new(names)?.signed_by(&key, &ca)?;
    Ok(Issued { ca: ca.pem(), certificate: certificate.pem(), key: key.serialize_pem() })
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "testbed conversion webhook");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

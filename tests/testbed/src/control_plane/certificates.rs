//! The control plane's own certificate authority, made anew for each: clients verify TLS as they would anywhere.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::StartError;

/// The authority's certificate and the files that the API server is given.
#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) authority_pem: String,
    pub(super) authority_der: Vec<u8>,
    pub(super) authority: PathBuf,
    pub(super) server_certificate: PathBuf,
    pub(super) server_key: PathBuf,
    /// What ServiceAccount tokens are signed with.
    pub(super) token_key: PathBuf,
    /// What they are verified with.
    pub(super) token_public_key: PathBuf,
}

impl Certificates {
    /// Makes the keys, for a server on loopback that has these names besides, and writes them into `directory`.
    pub(super) fn create(directory: &Path, server_names: Vec<String>) -> Result<Self, StartError> {
        let made = Made::new(server_names).map_err(StartError::Certificates)?;
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).map(|()| path).map_err(StartError::system("write a certificate"))
        };
        Ok(Self {
            authority_pem: made.authority.pem(),
            authority_der: made.authority.der().to_vec(),
            authority: write("authority.pem", &made.authority.pem())?,
            server_certificate: write("server.pem", &made.server.pem())?,
            server_key: write("server-key.pem", &made.server_key.serialize_pem())?,
            token_key: write("token-key.pem", &made.token_key.serialize_pem())?,
            token_public_key: write("token-public-key.pem", &made.token_key.public_key_pem())?,
        })
    }
}

struct Made {
    authority: rcgen::Certificate,
    server: rcgen::Certificate,
    server_key: KeyPair,
    token_key: KeyPair,
}

impl Made {
    fn new(mut server_names: Vec<String>) -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::new(vec![])?;
        params.distinguished_name.push(DnType::CommonName, "testbed authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_key = KeyPair::generate()?;
        let authority = params.self_signed(&authority_key)?;
        let issuer = Issuer::new(params, authority_key);

        server_names.extend(["localhost".to_owned(), "127.0.0.1".to_owned()]);
        let mut params = CertificateParams::new(server_names)?;
        params.distinguished_name.push(DnType::CommonName, "testbed API server");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let server_key = KeyPair::generate()?;
        let server = params.signed_by(&server_key, &issuer)?;
        Ok(Self { authority, server, server_key, token_key: KeyPair::generate()? })
    }
}

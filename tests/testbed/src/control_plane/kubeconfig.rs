//! The same way in, told to kube's client (as its configuration) and to programs (as a kubeconfig file).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kube::Config;
use serde_json::json;

use super::User;
use super::certificates::Certificates;

/// The token of the user `admin` in the group system:masters. It is no secret: the server listens on loopback only.
pub(super) const ADMIN_TOKEN: &str = "testbed-admin";

/// The token file of the API server.
pub(super) fn token_file(users: &[User]) -> String {
    let admin = format!("{ADMIN_TOKEN},admin,admin,\"system:masters\"\n");
    users.iter().fold(admin, |text, user| {
        text + &format!("{},{name},{name},\"{}\"\n", user.token(), user.group, name = user.name)
    })
}

pub(super) fn config(server_url: &str, certificates: &Certificates, token: &str) -> Config {
    let mut config = Config::new(server_url.parse().expect("the server's URL is a URL"));
    config.root_cert = Some(vec![certificates.authority_der.clone()]);
    config.auth_info =
        serde_json::from_value(json!({ "token": token })).expect("a token is all a user needs");
    config.default_retry = false;
    config
}

/// JSON, which every reader of kubeconfigs takes for the YAML it also is.
pub(super) fn text(server_url: &str, certificates: &Certificates, token: &str) -> String {
    let cluster = json!({
        "server": server_url,
        "certificate-authority-data": BASE64.encode(&certificates.authority_pem),
    });
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "testbed", "cluster": cluster }],
        "users": [{ "name": "testbed", "user": { "token": token } }],
        "contexts": [{ "name": "testbed", "context": { "cluster": "testbed", "user": "testbed" } }],
        "current-context": "testbed",
    });
    format!("{config:#}\n")
}

//! Continue tokens made here: the last resort where an object that can't be read fails every page that it is on.
//!
//! No server hands out a token that leads past such an object, and no other request does either. The form is that of
//! k8s.io/apiserver (`storage.EncodeContinue`): there it is called a public API that can't change, but no documentation
//! says so. A resourceVersion of -1 stands for the present state, as in the tokens that come with 410. A server that takes
//! no such token answers 400, and the list is then held where it is (`Paging::expired`). `tests/it/field_lists.rs` goes past
//! objects on a real server with them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

const VERSION: &str = "meta.k8s.io/v1";
const PRESENT_STATE: i64 = -1;

#[derive(Deserialize, Serialize)]
struct Token {
    #[serde(rename = "v")]
    version: String,
    #[serde(rename = "rv")]
    resource_version: i64,
    start: String,
}

/// A token of the page that begins after `key`, which is `namespace/name`, or a name alone.
pub(super) fn after(key: &str) -> String {
    let token = Token {
        version: VERSION.to_owned(),
        resource_version: PRESENT_STATE,
        // The next possible key. It also keeps the path from ending in `/` or `.`, which the server takes for an attack.
        start: format!("{key}\0"),
    };
    // Two strings and a number: there is nothing in it that can't be written as JSON.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
}

/// The key that the page of `token` begins after, where the token can be understood.
pub(super) fn key_before(token: &str) -> Option<String> {
    let Token { version, start, .. } = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    let key = start.strip_suffix('\0').filter(|_| version == VERSION)?;
    Some(key.strip_prefix('/').unwrap_or(key).to_owned())
}

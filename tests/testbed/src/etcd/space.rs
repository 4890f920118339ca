//! An etcd that runs out of space, and gets it back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::StatusCode;
use serde_json::json;

use super::Etcd;

/// Where what fills it is put: the keys from the first to the last.
const FILLER: (&str, &str) = ("/filler/", "/filler0");
/// The size of one of those, less than a request may have.
const PIECE: usize = 1 << 20;
/// More would mean that it has no quota.
const PIECES_MAX: usize = 200;

impl Etcd {
    /// Fills it until it takes no more writes. It needs a small `--quota-backend-bytes`.
    pub async fn fill(&self) {
        let value = BASE64.encode(vec![b'x'; PIECE]);
        for number in 0..PIECES_MAX {
            let key = BASE64.encode(format!("{}{number}", FILLER.0));
            let (status, answer) = self.exchange("kv/put", &json!({ "key": key, "value": value })).await;
            if status != StatusCode::OK {
                assert!(answer.contains("space exceeded"), "{answer}");
                return;
            }
        }
        panic!("etcd takes {PIECES_MAX} MiB: it has no quota");
    }

    /// Makes room again, as an operator would: what fills it goes, history too, and the alarm is put out.
    pub async fn make_room(&self) {
        let (first, end) = FILLER;
        self.ask("kv/deleterange", &json!({ "key": BASE64.encode(first), "range_end": BASE64.encode(end) }))
            .await;
        let revision = self.range(json!({ "key": BASE64.encode("/") })).await.header.revision;
        self.ask("kv/compaction", &json!({ "revision": revision, "physical": true })).await;
        self.ask("maintenance/defragment", &json!({})).await;
        let alarms = self.ask("maintenance/alarm", &json!({ "action": "GET" })).await;
        for alarm in alarms["alarms"].as_array().into_iter().flatten() {
            let out =
                json!({ "action": "DEACTIVATE", "memberID": alarm["memberID"], "alarm": alarm["alarm"] });
            self.ask("maintenance/alarm", &out).await;
        }
    }
}

//! Clients that create, change, delete and re-create objects of their own, and know what they wrote last.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, core::DynamicObject};
use serde_json::{Value, json};
use testbed::crd::Kind;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::journal::Journal;
use super::plan::VERSIONS;

/// Objects of one writer.
const OBJECTS: usize = 4;

/// How long an object may be unreadable once nothing is broken any more.
const READABLE_WITHIN: Duration = Duration::from_mins(1);

pub(super) struct Writer {
    client: Client,
    kind: Kind,
    rng: Rng,
    journal: Journal,
    beliefs: BTreeMap<String, Belief>,
    size: i64,
}

/// What a writer knows of an object.
#[derive(Clone, Debug)]
enum Belief {
    /// This is what it left, or that it is absent.
    Known(Option<Value>),
    /// An answer was lost or was a failure, so it is as before or as wished.
    Unsure { before: Option<Value>, wish: Wish },
}

#[derive(Clone, Copy, Debug)]
enum Wish {
    Size(i64),
    Gone,
}

impl Writer {
    pub(super) fn new(client: Client, kind: Kind, number: usize, seed: u64, journal: Journal) -> Self {
        let name = |object: usize| format!("c{number}-{object}");
        let beliefs = (0..OBJECTS).map(|object| (name(object), Belief::Known(None))).collect();
        let rng = Rng::with_seed(seed.wrapping_mul(31).wrapping_add(number as u64));
        Self { client, kind, rng, journal, beliefs, size: 0 }
    }

    /// Writes until it is told to stop.
    pub(super) async fn run(&mut self, mut stop: watch::Receiver<bool>) {
        let names: Vec<String> = self.beliefs.keys().cloned().collect();
        while !*stop.borrow() {
            let name = &names[self.rng.usize(..names.len())];
            self.write(name).await;
            let pause = Duration::from_millis(self.rng.u64(20..=300));
            drop(tokio::time::timeout(pause, stop.wait_for(|stop| *stop)).await);
        }
    }

    /// Compares every object with what is known of it, nothing being broken any more.
    pub(super) async fn check(&mut self) {
        let deadline = Instant::now() + READABLE_WITHIN;
        for (name, belief) in self.beliefs.clone() {
            let found = loop {
                if let Ok(found) = self.read(&name).await {
                    break found;
                }
                if Instant::now() > deadline {
                    self.journal.wrong(&format!("{name} can't be read"));
                    return;
                }
                sleep(Duration::from_millis(200)).await;
            };
            self.compare(&name, &belief, found.as_ref());
        }
    }

    async fn write(&mut self, name: &str) {
        self.size += 1;
        let size = self.size;
        let before = match self.beliefs[name].clone() {
            Belief::Known(before) => before,
            belief @ Belief::Unsure { .. } => {
                if let Ok(found) = self.read(name).await {
                    self.compare(name, &belief, found.as_ref());
                    self.beliefs.insert(name.to_owned(), Belief::Known(found));
                }
                return;
            }
        };
        let is_deletion = before.is_some() && self.rng.u8(..5) == 0;
        let wish = if is_deletion { Wish::Gone } else { Wish::Size(size) };
        let answer = match (&before, wish) {
            (_, Wish::Gone) => self.api().delete(name, &DeleteParams::default()).await.map(|_| None),
            (None, Wish::Size(size)) => self.create(name, size).await.map(Some),
            (Some(_), Wish::Size(size)) => self.update(name, size).await.map(Some),
        };
        let belief = match answer.map(|object| object.map(plain)) {
            Ok(written) => {
                let belief = Belief::Unsure { before, wish };
                self.compare(name, &belief, written.as_ref());
                Belief::Known(written)
            }
            Err(_) => Belief::Unsure { before, wish },
        };
        self.beliefs.insert(name.to_owned(), belief);
    }

    async fn create(&mut self, name: &str, size: i64) -> kube::Result<DynamicObject> {
        let version = VERSIONS[self.rng.usize(..VERSIONS.len())];
        let object = json!({
            "apiVersion": self.kind.api_version(version), "kind": self.kind.kind,
            "metadata": { "name": name }, "spec": { "size": size, "color": "red" },
        });
        let object = serde_json::from_value(object).expect("an object");
        self.api_at(version).create(&PostParams::default(), &object).await
    }

    async fn update(&mut self, name: &str, size: i64) -> kube::Result<DynamicObject> {
        let change = Patch::Merge(json!({ "spec": { "size": size } }));
        self.api().patch(name, &PatchParams::default(), &change).await
    }

    /// The object, or that there is none. A 404 that names no object speaks of something else.
    async fn read(&mut self, name: &str) -> kube::Result<Option<Value>> {
        match self.api().get(name).await {
            Ok(object) => Ok(Some(plain(object))),
            Err(kube::Error::Api(status))
                if status.code == 404 && status.details.as_ref().is_some_and(|d| d.name == name) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Notes if an object is not what it can be by what is known of it.
    fn compare(&self, name: &str, belief: &Belief, found: Option<&Value>) {
        let is_right = match belief {
            Belief::Known(known) => known.as_ref() == found,
            Belief::Unsure { before, wish } => {
                before.as_ref() == found || wish.is_met(before.as_ref(), found)
            }
        };
        if !is_right {
            self.journal.wrong(&format!("{name} is {found:?}, and was written so: {belief:?}"));
        }
    }

    fn api(&mut self) -> Api<DynamicObject> {
        let version = VERSIONS[self.rng.usize(..VERSIONS.len())];
        self.api_at(version)
    }

    fn api_at(&self, version: &str) -> Api<DynamicObject> {
        self.kind.api(&self.client, version, Some("default"))
    }
}

impl Wish {
    /// Whether this is what comes of it.
    fn is_met(self, before: Option<&Value>, found: Option<&Value>) -> bool {
        match (self, before, found) {
            (Self::Gone, _, None) => true,
            (Self::Size(size), None, Some(found)) => {
                found["spec"]["size"] == size && found["metadata"]["generation"] == 1
            }
            // One write more than before, and nobody else's.
            (Self::Size(size), Some(before), Some(found)) => {
                let generation = |object: &Value| object["metadata"]["generation"].as_i64();
                found["spec"]["size"] == size
                    && found["metadata"]["uid"] == before["metadata"]["uid"]
                    && generation(found) == generation(before).map(|generation| generation + 1)
            }
            (Self::Gone, _, Some(_)) | (Self::Size(_), _, None) => false,
        }
    }
}

/// The object without what a rewrite changes.
fn plain(object: DynamicObject) -> Value {
    let mut object = serde_json::to_value(object).expect("an object is JSON");
    if let Some(fields) = object.as_object_mut() {
        fields.remove("apiVersion");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    object
}

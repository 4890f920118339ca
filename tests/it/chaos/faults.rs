//! The faults of a plan, done to what stands on the stage, and taken back.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testbed::access;
use testbed::crd::{self, Conversion};
use testbed::process::Signal;
use testbed::proxy::{Fault, Gate, Rule};
use testbed::webhook;
use testbed::webhook::admission::{AdmissionWebhook, Denial};
use tokio::time::{sleep, timeout};

use super::historian::Historian;
use super::plan::{Action, CrdEdit, Disturbance, Event, OrderChange, Part, Spoil, Stage, WebhookFault};
use super::stand::Stand;
use crate::policy::{create_parts, delete_parts};

/// How long it is waited for a request that is to be held.
const HELD_WITHIN: Duration = Duration::from_secs(10);

/// How long it is waited for the sweep in which objects are put back: settling, and a renewal of the Leases.
const LAGS_FOR: Duration = Duration::from_secs(25);

/// How long visits store objects in another version.
const AWAY_FOR: Duration = Duration::from_millis(800);

/// The longest delay of a conversion: a write with several of them must be over long before settling is.
const DAWDLE: Duration = Duration::from_millis(60);

impl Event {
    /// Does it at its time, and takes back what lasts.
    pub(super) async fn happen(&self, number: &str, stand: &Stand, stage: &Stage, historian: &Historian) {
        sleep(self.at).await;
        let gate = Gate::default();
        let held = self.during.map(|(part, after)| {
            stand.proxy.add_for_a_while(part.rule(Fault::Gate(gate.clone())).after(after).times(1))
        });
        let was_reached = held.is_some() && timeout(HELD_WITHIN, gate.reached()).await.is_ok();
        let when = match self.during {
            Some((part, _)) if was_reached => format!(" while one of {part:?} waits"),
            Some(_) | None => String::new(),
        };
        stand.journal.note(&format!("{:?}{when}", self.action));
        let doing = Doing { stand, stage, historian, number, lasts: self.lasts };
        doing.act(&self.action, &gate).await;
        gate.open();
        if let Some(held) = held {
            stand.proxy.remove(held);
        }
    }
}

impl Part {
    fn rule(self, fault: Fault) -> Rule {
        let (method, part) = self.matches();
        let rule = Rule::new(fault).uri(part);
        match method {
            Some(method) => rule.method(method),
            None => rule,
        }
    }
}

/// An action under way.
struct Doing<'a> {
    stand: &'a Stand,
    stage: &'a Stage,
    historian: &'a Historian,
    number: &'a str,
    lasts: Duration,
}

impl Doing<'_> {
    /// Whatever lasts opens the gate as soon as it has begun.
    async fn act(&self, action: &Action, gate: &Gate) {
        match action {
            Action::Answers(part, spoil) => self.spoil_answers(*part, spoil, gate).await,
            Action::Webhook(fault) => self.spoil_webhook(fault, gate).await,
            Action::AdmissionDenies(object, code) => {
                // A 404 of something else: the object is there.
                let details = json!({ "name": "settings", "kind": "configmaps" });
                let status = json!({ "code": code, "message": "not on a day like this", "details": details });
                let name = self.stand.keys[*object].name.clone();
                let webhook =
                    AdmissionWebhook::start(Denial { name, status }).await.expect("start a webhook");
                self.register(&self.configuration(&webhook), gate).await;
            }
            Action::AdmissionIsGone => {
                let nobody = Denial { name: String::new(), status: json!({}) };
                let webhook = AdmissionWebhook::start(nobody).await.expect("start a webhook");
                let configuration = self.configuration(&webhook);
                drop(webhook);
                self.register(&configuration, gate).await;
            }
            Action::Servers(fault) => {
                gate.open();
                fault.happen(self.stand, self.historian, self.lasts).await;
            }
            Action::PolicyRefuses(Some(object)) => {
                let name = &self.stand.keys[*object].name;
                self.refuse(&format!("object.metadata.name != '{name}'"), gate).await;
            }
            Action::PolicyRefuses(None) => self.refuse("false", gate).await,
            Action::RightsWithdrawn => self.withdraw_rights(gate).await,
            Action::Crd(edit) => self.edit_crd(edit).await,
            Action::Burst { through } => self.stand.burst(through, self.lasts / 5).await,
            Action::Controller(disturbance) => {
                gate.open();
                self.disturb(disturbance).await;
            }
            Action::Order(change) => self.change_order(change, gate).await,
            Action::Compact => self.historian.compact(),
        }
    }

    async fn change_order(&self, change: &OrderChange, gate: &Gate) {
        match change {
            OrderChange::Suspend => {
                self.patch_spec(json!({ "suspend": true })).await;
                self.lasting(gate).await;
                self.patch_spec(json!({ "suspend": false })).await;
            }
            OrderChange::Pace { writes_per_second } => {
                self.patch_spec(json!({ "pace": { "writesPerSecond": writes_per_second } })).await;
            }
            OrderChange::PageSize { objects } => self.patch_spec(json!({ "pageSize": objects })).await,
            OrderChange::Retry => {
                let annotations = json!({ restow::api::RETRY_ANNOTATION: self.number });
                self.patch(json!({ "metadata": { "annotations": annotations } })).await;
            }
            OrderChange::Always => self.patch_spec(json!({ "mode": "Always" })).await,
            OrderChange::Recreate => self.stand.migrate_anew(self.stage).await,
        }
    }

    /// Lets what is held go on, and waits until the fault is to end.
    async fn lasting(&self, gate: &Gate) {
        gate.open();
        sleep(self.lasts).await;
    }

    async fn spoil_answers(&self, part: Part, spoil: &Spoil, gate: &Gate) {
        let rule = match spoil {
            Spoil::Answer { code, retry_after_seconds, times } => {
                let fault = Fault::status(*code, "Chaos", "the server has a bad day");
                let fault = match retry_after_seconds {
                    Some(seconds) => fault.retry_after(*seconds),
                    None => fault,
                };
                part.rule(fault).times(*times)
            }
            Spoil::Delay(by) => part.rule(Fault::Delay(*by)),
            Spoil::Cut { is_acted_on, times } => {
                part.rule(if *is_acted_on { Fault::CutAfter } else { Fault::CutBefore }).times(*times)
            }
        };
        let rule = self.stand.proxy.add_for_a_while(rule);
        self.lasting(gate).await;
        self.stand.proxy.remove(rule);
    }

    async fn spoil_webhook(&self, fault: &WebhookFault, gate: &Gate) {
        let Some(webhook) = &self.stand.webhook else { return };
        let fault = match fault {
            WebhookFault::Down => None,
            WebhookFault::Fails => Some(webhook::Fault::Status(500)),
            WebhookFault::Dawdles => Some(webhook::Fault::Slow(DAWDLE)),
            WebhookFault::Refuses { object } => {
                Some(webhook::Fault::refuse(&self.stand.keys[*object].name, "a bug in the webhook"))
            }
        };
        match fault {
            Some(fault) => webhook.lock().await.misbehave(fault),
            None => webhook.lock().await.stop(),
        }
        self.lasting(gate).await;
        self.stand.heal_webhook().await;
    }

    async fn refuse(&self, expression: &str, gate: &Gate) {
        let name = format!("{}-{}.example.com", self.stand.scene.migration(), self.number);
        create_parts(&self.stand.scene, &name, expression).await;
        self.lasting(gate).await;
        delete_parts(&self.stand.scene, &name).await;
    }

    fn configuration(&self, webhook: &AdmissionWebhook) -> ValidatingWebhookConfiguration {
        let Stand { scene, .. } = self.stand;
        let name = format!("{}-{}.example.com", scene.migration(), self.number);
        serde_json::from_value(webhook.configuration(&name, &scene.kind)).expect("a webhook's configuration")
    }

    /// Has an admission webhook asked for as long as the fault lasts.
    async fn register(&self, configuration: &ValidatingWebhookConfiguration, gate: &Gate) {
        let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(self.stand.scene.client.clone());
        webhooks.create(&PostParams::default(), configuration).await.expect("register the webhook");
        self.lasting(gate).await;
        let name = configuration.metadata.name.as_deref().unwrap_or_default();
        webhooks.delete(name, &DeleteParams::default()).await.expect("take the webhook away");
    }

    async fn withdraw_rights(&self, gate: &Gate) {
        let (plane, kind) = (self.stand.scene.plane, self.stand.kind());
        gate.open();
        // Another event may have taken them already.
        drop(access::revoke_target(plane, &kind.group, kind.plural).await);
        sleep(self.lasts).await;
        drop(access::grant_target(plane, &kind.group, kind.plural).await);
    }

    async fn edit_crd(&self, edit: &CrdEdit) {
        let (client, name) = (&self.stand.scene.client, self.stand.kind().crd_name());
        match edit {
            CrdEdit::Move { to } => self.stand.move_flag(to).await,
            CrdEdit::MoveWithLaggard { to, visits } => self.move_with_laggard(to, *visits).await,
            CrdEdit::AwayAndBack { away, for_, unseen } => {
                self.move_away_and_back(away, *for_, *unseen).await;
            }
            CrdEdit::AwayAndBackInSecret { to, away, visits } => {
                self.move_away_and_back_in_secret(to, away, *visits).await;
            }
            CrdEdit::Describe => {
                let text = format!("edit {}", self.number);
                crd::describe(client, &name, &text).await.expect("describe the CRD");
            }
            CrdEdit::ChangeConversion => {
                crd::set_conversion(client, &name, &Conversion::None).await.expect("edit the CRD");
                sleep(self.lasts / 2).await;
                self.stand.restore_conversion().await;
            }
        }
    }

    /// Objects that were visited become what they were before, while a visit of the first sweep waits.
    async fn move_with_laggard(&self, to: &str, visits: usize) {
        let Stand { scene, proxy, journal, .. } = self.stand;
        let (etcd, kind) = (scene.plane.etcd(), self.stand.kind());
        let before = self.stand.values().await;
        let (gate, moved_at) = (Gate::default(), Timestamp::now());
        let visit = Rule::new(Fault::Gate(gate.clone())).method("PATCH").uri(format!("/{to}/namespaces/"));
        scene.move_storage(to).await;
        self.stand.burst(to, Duration::from_millis(300)).await;
        let held = proxy.add_for_a_while(visit.after(visits).times(1));
        let was_reached = timeout(LAGS_FOR, gate.reached()).await.is_ok();
        let first_page = format!("/{to}/{}?", kind.plural);
        let is_first_page = |uri: &str| uri.contains(&first_page) && !uri.contains("continue=");
        let sweeps = proxy.passed().iter().filter(|p| p.at > moved_at && is_first_page(&p.uri)).count();
        let mut put_back = 0;
        if was_reached && sweeps == 1 {
            let new = Some(kind.api_version(to));
            for (old, now) in before.iter().zip(self.stand.values().await) {
                if now.api_version() == new && old.api_version() != new {
                    etcd.put(&old.key, &old.bytes).await;
                    put_back += 1;
                }
            }
        }
        journal.note(&format!("{put_back} objects put back in sweep {sweeps}"));
        gate.open();
        proxy.remove(held);
    }

    /// Objects are written while the flag is away, and once more when it has come back. Unseen by the controller, if so
    /// wished, which finds everything as it was.
    async fn move_away_and_back(&self, away: &'static str, for_: Duration, unseen: bool) {
        let back = self.stand.storage_version().await;
        if unseen {
            self.stand.signal(Signal::Stop).await;
        }
        self.stand.scene.move_storage(away).await;
        self.stand.burst(&back, for_).await;
        self.stand.scene.move_storage(&back).await;
        self.stand.burst(&back, Duration::from_millis(300)).await;
        if unseen {
            self.stand.signal(Signal::Continue).await;
        }
    }

    /// Visits of the first sweep store objects in another version while the flag is away. The controller has no watch that
    /// could tell of it: it only finds another generation when it looks.
    async fn move_away_and_back_in_secret(&self, to: &str, away: &str, visits: usize) {
        let Stand { scene, proxy, .. } = self.stand;
        self.stand.move_flag(to).await;
        self.stand.kill().await;
        let (watch, gate) = (Gate::default(), Gate::default());
        let watches = Rule::new(Fault::Gate(watch.clone())).uri("/customresourcedefinitions?").uri("watch=");
        let visit = Rule::new(Fault::Gate(gate.clone())).method("PATCH").uri(format!("/{to}/namespaces/"));
        let rules = [proxy.add_for_a_while(watches), proxy.add_for_a_while(visit.after(visits))];
        self.stand.start().await;
        drop(timeout(LAGS_FOR, gate.reached()).await);
        self.stand.move_flag(away).await;
        gate.open();
        sleep(AWAY_FOR).await;
        scene.move_storage(to).await;
        watch.open();
        for rule in rules {
            proxy.remove(rule);
        }
    }

    async fn disturb(&self, disturbance: &Disturbance) {
        match disturbance {
            Disturbance::Kill { down_for } => {
                self.stand.kill().await;
                sleep(*down_for).await;
            }
            Disturbance::KillAt { request, is_acted_on } => {
                let held = self.stand.proxy.held();
                let last = if *is_acted_on { Fault::HoldAfter } else { Fault::HoldBefore };
                let rules = [
                    self.stand.proxy.add_for_a_while(Rule::new(last).after(*request).times(1)),
                    self.stand.proxy.add_for_a_while(Rule::new(Fault::HoldBefore).after(*request)),
                ];
                drop(timeout(HELD_WITHIN, self.stand.proxy.until_held(held + 1)).await);
                self.stand.kill().await;
                for rule in rules {
                    self.stand.proxy.remove(rule);
                }
            }
            Disturbance::Pause => {
                self.stand.signal(Signal::Stop).await;
                sleep(self.lasts).await;
                self.stand.signal(Signal::Continue).await;
            }
        }
        self.stand.start().await;
    }

    async fn patch_spec(&self, spec: Value) {
        self.patch(json!({ "spec": spec })).await;
    }

    async fn patch(&self, patch: Value) {
        let (migrations, name) = (self.stand.scene.migrations(), self.stand.scene.migration());
        // It may be in the middle of being re-created.
        drop(migrations.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await);
    }
}

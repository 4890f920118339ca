#![expect(clippy::panic, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{Paging, Position, Turn, Unreadable};
use crate::plan::sample::{asks_to_wait, failure, object};
use crate::plan::sweep::token;
use crate::plan::{Cause, Details, Failure, Object, Page, PageRequest};

/// What a server says of objects that it can't read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    /// Their keys, as since Kubernetes 1.37.
    Names,
    /// Why, but not which.
    WhyAlone,
    /// Their keys, and that a webhook did not convert them.
    Webhook,
    /// That a webhook did not convert one.
    WebhookAlone,
    /// That a webhook doesn't answer, and for which objects.
    WebhookDown,
    /// That a webhook doesn't answer.
    WebhookDownAlone,
}

const NO_WEBHOOK: &str = r#"conversion webhook for v1, Kind=Widget failed: Post "https://hook": EOF"#;

struct Server {
    /// Keys, and whether each can be read.
    objects: BTreeMap<String, bool>,
    says: Says,
    /// The same, as they were when the list began: what tokens of the server's own lead to.
    past: Option<BTreeMap<String, bool>>,
    takes_made_tokens: bool,
    is_down: bool,
}

/// What was listed, what was refused, how many requests it took, and how many of them were followed by a wait.
#[derive(Debug, Default, PartialEq, Eq)]
struct Course {
    listed: Vec<String>,
    refused: Vec<String>,
    requests: usize,
    waits: usize,
    said: String,
}

impl Course {
    fn refuse(&mut self, found: Vec<Unreadable>) {
        self.refused.extend(found.into_iter().map(|unreadable| unreadable.object().to_string()));
    }
}

impl Server {
    fn new(says: Says, good: impl IntoIterator<Item = String>, bad: &[&str]) -> Self {
        let mut objects: BTreeMap<_, _> = good.into_iter().map(|key| (key, true)).collect();
        objects.extend(bad.iter().map(|key| ((*key).to_owned(), false)));
        Self { objects, says, past: None, takes_made_tokens: true, is_down: false }
    }

    fn answer(&self, request: &PageRequest) -> Result<Page, Failure> {
        let after =
            request.continue_token.as_deref().map(|token| token::key_before(token).unwrap_or_default());
        if self.is_down {
            return Err(failure(500, "etcdserver: no leader"));
        }
        let made_here = request.continue_token == after.as_deref().map(token::after);
        let objects = self.past.as_ref().filter(|_| !made_here).unwrap_or(&self.objects);
        let rest = || objects.iter().filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
        let limit = request.limit as usize;
        let page: Vec<_> = rest().take(limit).collect();
        let bad: Vec<&str> = page.iter().filter(|(_, good)| !**good).map(|(key, _)| key.as_str()).collect();
        if !bad.is_empty() {
            return Err(self.unreadable(&bad));
        }
        let objects: Vec<Object> = page.iter().map(|(key, _)| shown(key)).collect();
        let last = page.last().map(|(key, _)| theirs(key));
        let continue_token = last.filter(|_| rest().count() > limit);
        Ok(Page { objects, continue_token, remaining: None })
    }

    fn unreadable(&self, keys: &[&str]) -> Failure {
        let message = match self.says {
            Says::Names | Says::WhyAlone => "object not decodable",
            Says::Webhook | Says::WebhookAlone => "conversion webhook for v1, Kind=Widget failed: a bug",
            Says::WebhookDown | Says::WebhookDownAlone => NO_WEBHOOK,
        };
        let field = |key: &&str| format!("/registry/example.com/widgets/{key}");
        let causes = keys.iter().map(|key| Cause { field: field(key), message: message.to_owned() });
        let details = match self.says {
            Says::Names | Says::Webhook | Says::WebhookDown => {
                Some(Details { causes: causes.collect(), ..Details::default() })
            }
            Says::WhyAlone | Says::WebhookAlone | Says::WebhookDownAlone => None,
        };
        Failure { details, ..failure(500, message) }
    }

    /// Lists everything, in pages of `limit`, or as far as it gets with so many waits.
    fn go_through(&self, paging: &mut Paging, limit: u32, waits_max: usize) -> Course {
        let mut course = Course::default();
        while !paging.is_at_end() && course.waits < waits_max {
            assert!(course.requests < 10_000, "it does not end");
            course.requests += 1;
            let on_course = paging.is_on_course();
            let request = paging.request(limit);
            let after = request.continue_token.as_deref().and_then(token::key_before);
            // The server takes such a key for an attack (k8s.io/apiserver `DecodeContinue`).
            let refuses_token = after.is_some_and(|key| key.contains("//"))
                || !self.takes_made_tokens && (!on_course || paging.passed.is_some());
            let turn = match self.answer(&request) {
                _ if refuses_token => paging.expired(None),
                Ok(page) => {
                    course.refuse(paging.behind());
                    paging.listed(page)
                }
                Err(failure) => paging.failed(failure, "example.com", "widgets"),
            };
            match turn {
                Turn::Page(page) => course.listed.extend(page.objects.into_iter().map(|o| o.to_string())),
                Turn::AskOn => {}
                Turn::Unreadable(found) => course.refuse(found),
                Turn::Hold(failure) => {
                    course.waits += 1;
                    course.said = failure.message;
                }
            }
        }
        course
    }
}

/// A token of the server's own: that of a state that will have been.
fn theirs(key: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!(r#"{{"v":"meta.k8s.io/v1","rv":230,"start":"{key}\u0000"}}"#))
}

fn shown(key: &str) -> Object {
    let (namespace, name) = key.split_once('/').map_or((None, key), |(n, name)| (Some(n.to_owned()), name));
    Object { namespace, ..object(name, "1") }
}

fn start() -> Paging {
    Paging::at(Position::Next(None))
}

/// w000 to w999, and without a namespace.
fn thousand(without: &[&str]) -> Vec<String> {
    (0..1000).map(|n| format!("w{n:03}")).filter(|key| !without.contains(&key.as_str())).collect()
}

#[test]
fn what_can_be_read_is_listed_once_and_what_cant_be_is_refused() {
    let table: [(&str, Says, &[&str], usize); 8] = [
        ("one in the middle", Says::Names, &["w300"], 40),
        ("the first and the last", Says::Names, &["w000", "w999"], 60),
        ("several together and one apart", Says::Names, &["w300", "w301", "w302", "w800"], 80),
        ("one that isn't named", Says::WhyAlone, &["w300"], 200),
        ("the first and the last, not named", Says::WhyAlone, &["w000", "w999"], 400),
        ("two with one between them, not named", Says::WhyAlone, &["w300", "w302"], 400),
        ("one that a webhook doesn't convert", Says::Webhook, &["w300"], 40),
        ("one that a webhook doesn't convert, not named", Says::WebhookAlone, &["w300"], 200),
    ];
    for (case, says, bad, requests_max) in table {
        let good = thousand(bad);
        let course = Server::new(says, good.clone(), bad).go_through(&mut start(), 500, 100);
        let missed: Vec<_> = good.iter().filter(|key| !course.listed.contains(key)).collect();
        assert!(missed.is_empty() && course.listed.len() == good.len(), "{case}: {missed:?} were not listed");
        assert_eq!(course.refused, bad, "{case}");
        assert!(course.requests <= requests_max, "{case}: {} requests", course.requests);
        if says == Says::Names {
            assert_eq!(course.waits, 0, "{case}");
        }
    }
}

#[test]
fn objects_in_namespaces_are_named_with_them() {
    for says in [Says::Names, Says::WhyAlone] {
        let good = ["a/x", "b/x"].map(str::to_owned);
        let course = Server::new(says, good, &["a/y"]).go_through(&mut start(), 500, 100);
        assert_eq!(course.refused, ["a/y"]);
        assert_eq!(course.listed, ["a/x", "b/x"]);
    }
}

#[test]
fn the_first_object_of_a_namespace_that_isnt_named_is_found() {
    let table: [(&str, &[&str], &[&str]); 3] = [
        ("of the second", &["a/x", "b/y"], &["b/x"]),
        ("of all", &["a/y", "b/x"], &["a/x"]),
        ("of all, without a namespace", &["b"], &["a"]),
    ];
    for (case, good, bad) in table {
        for says in [Says::WhyAlone, Says::WebhookAlone] {
            let good = good.iter().map(|key| (*key).to_owned());
            let course = Server::new(says, good.clone(), bad).go_through(&mut start(), 500, 100);
            assert_eq!(course.refused, bad, "{case}: {}", course.said);
            assert_eq!(course.listed, good.collect::<Vec<_>>(), "{case}");
        }
    }
}

#[test]
fn what_is_missed_between_two_that_arent_named_is_found_once_the_later_is_repaired() {
    let good = ["a/y", "b/y"].map(str::to_owned);
    let mut server = Server::new(Says::WhyAlone, good, &["a/x", "b/x"]);
    let mut paging = start();
    while paging.passed.is_none() {
        let request = paging.request(500);
        match server.answer(&request) {
            Ok(page) => drop(paging.listed(page)),
            Err(failure) => drop(paging.failed(failure, "example.com", "widgets")),
        }
    }
    let [missed] = &paging.behind()[..] else { panic!("not one object") };
    assert_eq!(missed.key, "b/x");
    assert!(missed.failure.message.contains("there may be others before this one"), "{missed:?}");
    server.objects.insert("b/x".to_owned(), true);
    let course = server.go_through(&mut start(), 500, 8);
    assert_eq!((course.refused, course.listed.join(" ")), (vec!["a/x".to_owned()], "a/y b/x b/y".to_owned()));
}

#[test]
fn a_list_of_nothing_but_unreadable_objects_comes_to_its_end() {
    let course = Server::new(Says::Names, [], &["a", "b", "c"]).go_through(&mut start(), 500, 10);
    assert_eq!((course.refused.len(), course.waits), (3, 0));
    let course = Server::new(Says::WhyAlone, [], &["a", "b", "c"]).go_through(&mut start(), 500, 10);
    assert_eq!(course.refused, ["c"], "where none is named, the last of neighbours is");
}

#[test]
fn pages_grow_again_after_an_object_that_cant_be_read() {
    let mut paging = start();
    let server = Server::new(Says::Names, thousand(&["w000"]), &["w000"]);
    let course = server.go_through(&mut paging, 100, 10);
    // 100, 12 and 1 fail; 1, 2, 4 … 64 are the first 127; nine of a hundred are the rest.
    assert_eq!(course.requests, 3 + 7 + 9);
    assert_eq!(paging.request(100).limit, 100);
}

#[test]
fn where_nothing_can_be_listed_it_is_no_object_that_is_refused() {
    let mut paging = start();
    let mut server = Server { is_down: true, ..Server::new(Says::WhyAlone, thousand(&[]), &[]) };
    let course = server.go_through(&mut paging, 500, 20);
    assert_eq!((course.refused.len(), course.waits), (0, 20));
    assert!(course.requests <= 40, "{} requests", course.requests);
    server.is_down = false;
    let course = server.go_through(&mut paging, 500, 1);
    assert_eq!((course.listed.len(), course.waits), (1000, 0));
}

#[test]
fn a_webhook_that_answers_nothing_is_down_and_no_objects_matter() {
    let keys = ["a", "b", "c", "d"];
    for says in [Says::WebhookDown, Says::WebhookDownAlone] {
        let mut paging = start();
        let course = Server::new(says, ["e".to_owned()], &keys).go_through(&mut paging, 500, 20);
        assert_eq!((course.refused.len(), course.waits, course.said.as_str()), (0, 20, NO_WEBHOOK));
        assert_eq!(course.requests, course.waits, "each is waited after");
    }
}

#[test]
fn a_webhook_that_goes_down_during_a_hunt_is_waited_for() {
    let good = ["a/a", "b/b"].map(str::to_owned);
    let mut server = Server::new(Says::WhyAlone, good, &["b/a"]);
    let mut paging = start();
    while paging.is_on_course() {
        let request = paging.request(500);
        match server.answer(&request) {
            Ok(page) => drop(paging.listed(page)),
            Err(failure) => drop(paging.failed(failure, "example.com", "widgets")),
        }
    }
    let course =
        Server::new(Says::WebhookDownAlone, [], &["a/a", "b/a", "b/b"]).go_through(&mut paging, 500, 3);
    assert_eq!((course.refused.len(), course.said.as_str()), (0, NO_WEBHOOK));
    server.is_down = false;
    let course = server.go_through(&mut paging, 500, 3);
    assert_eq!((course.refused, course.listed), (vec!["b/a".to_owned()], vec!["b/b".to_owned()]));
}

#[test]
fn what_a_webhook_refuses_is_refused_even_if_it_is_all_there_is() {
    for (says, refused) in [(Says::Webhook, &["a", "b"][..]), (Says::WebhookAlone, &["b"][..])] {
        let course = Server::new(says, [], &["a", "b"]).go_through(&mut start(), 500, 20);
        assert_eq!(course.refused, refused, "{}", course.said);
    }
}

#[test]
fn a_server_that_takes_no_token_made_here_is_asked_again_from_where_it_stuck() {
    for (says, said) in [(Says::Names, "b can't be read"), (Says::WhyAlone, "object not decodable")] {
        let mut paging = start();
        let good = ["a", "c"].map(str::to_owned);
        let mut server = Server { takes_made_tokens: false, ..Server::new(says, good, &["b"]) };
        let course = server.go_through(&mut paging, 500, 8);
        assert_eq!((course.listed.as_slice(), course.waits), (["a".to_owned()].as_slice(), 8));
        assert!(course.said.contains(said), "{}", course.said);
        assert!(course.refused.is_empty(), "counted once a round: {:?}", course.refused);
        server.objects.remove("b");
        assert_eq!(server.go_through(&mut paging, 500, 8).listed, ["c"]);
    }
}

#[test]
fn one_that_was_repaired_stops_no_list_that_goes_on_in_the_past() {
    let good = ["a", "c"].map(str::to_owned);
    let past = Server::new(Says::WhyAlone, good.clone(), &["b"]).objects;
    let mut server = Server::new(Says::WhyAlone, good, &["b"]);
    let mut paging = start();
    assert_eq!(server.go_through(&mut paging, 1, 0).listed, Vec::<String>::new());
    let page = server.answer(&paging.request(1));
    let Ok(page) = page else { panic!("{page:?}") };
    assert!(matches!(paging.listed(page), Turn::Page(_)));
    server.objects.insert("b".to_owned(), true);
    server.past = Some(past);
    let course = server.go_through(&mut paging, 1, 8);
    assert_eq!((course.listed.as_slice(), course.waits), (["b", "c"].map(str::to_owned).as_slice(), 1));
}

#[test]
fn what_is_no_500_makes_no_page_smaller() {
    let mut paging = start();
    for failure in [failure(503, "down"), failure(429, "wait"), asks_to_wait(500, 1), Failure::default()] {
        let _ = paging.request(500);
        assert_eq!(paging.failed(failure.clone(), "example.com", "widgets"), Turn::Hold(failure));
        assert_eq!(paging.request(500).limit, 500);
    }
}

#[test]
fn what_is_said_of_an_object_is_not_what_is_said_of_the_list() {
    let named = ["a", "b"].map(str::to_owned);
    let server = Server::new(Says::Names, [], &["a", "b"]);
    let list = Failure { continue_token: Some("next".to_owned()), ..server.unreadable(&["a", "b"]) };
    let failures: Vec<_> = super::named(&list, "example.com", "widgets");
    assert_eq!(failures.iter().map(|unreadable| unreadable.key.clone()).collect::<Vec<_>>(), named);
    for Unreadable { failure, .. } in failures {
        assert_eq!(failure, self::failure(500, "object not decodable"));
    }
}

#[test]
fn a_list_that_starts_over_keeps_its_small_pages() {
    let mut paging = start();
    let _ = paging.request(500);
    let _ = paging.failed(failure(500, "object not decodable"), "example.com", "widgets");
    assert_eq!(paging.request(500).limit, 62);
    assert_eq!(paging.expired(None), Turn::AskOn);
    assert_eq!(paging.request(500), PageRequest { continue_token: None, limit: 62 });
}

#[test]
fn a_list_that_leads_past_no_unreadable_object_says_whose_matter_that_is() {
    let mut paging = start();
    let server = Server::new(Says::Names, [], &["a"]);
    let _ = paging.request(1);
    assert_eq!(paging.failed(server.unreadable(&["a"]), "example.com", "widgets"), Turn::AskOn);
    let Turn::Hold(failure) = paging.expired(None) else { panic!("it is not held") };
    assert_eq!((failure.code, failure.reason.as_str()), (Some(400), "Unreadable"));
    assert!(failure.message.contains("a can't be read: repair that object"), "{}", failure.message);
}

#[test]
fn tokens_made_here_are_like_those_of_a_server() {
    // As kube-apiserver 1.37.2 hands them out, from its cache and from etcd.
    let theirs = [
        ("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MjMwLCJzdGFydCI6Ii9kZWZhdWx0L3cyXHUwMDAwIn0", "default/w2"),
        ("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MjMzLCJzdGFydCI6ImRlZmF1bHQvdzFcdTAwMDAifQ", "default/w1"),
    ];
    for (token, key) in theirs {
        assert_eq!(token::key_before(token).as_deref(), Some(key));
        let Some(ours) = token::key_before(&token::after(key)) else { panic!("it can't be read back") };
        assert_eq!(ours, key);
    }
    let ours = URL_SAFE_NO_PAD.decode(token::after("a")).unwrap_or_default();
    assert_eq!(String::from_utf8_lossy(&ours), r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"a\u0000"}"#);
    for nonsense in ["", "?", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjIiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0"] {
        assert_eq!(token::key_before(nonsense), None, "{nonsense}");
    }
}

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use super::{Listing, Outcome, Reading, Written, read_list, read_second_look, read_visit};
use crate::plan::sample::{failure, object, page, target};
use crate::plan::{Details, Failure, Scope};

fn about(code: u16, kind: &str, name: &str) -> Failure {
    let group = if kind == "widgets" { "example.com" } else { "" };
    let details =
        Details { group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned(), causes: Vec::new() };
    Failure { details: Some(details), ..failure(code, "said") }
}

fn no_answer() -> Failure {
    Failure { message: "connection reset".to_owned(), ..Failure::default() }
}

/// The visit of `shop/a`, listed with uid `uid-a` and resourceVersion 1, as one word.
fn visit(answer: Result<(&str, &str), Failure>) -> String {
    let answer =
        answer.map(|(uid, version)| Written { uid: uid.to_owned(), resource_version: version.to_owned() });
    match read_visit(&target().unwrap(), &object("a", "1"), answer) {
        Reading::LookAgain(_) => "look again".to_owned(),
        Reading::Plain(outcome) => word(outcome),
    }
}

fn second_look(first: Failure, look: Result<(), Failure>) -> String {
    word(read_second_look(&target().unwrap(), &object("a", "1"), first, look))
}

fn word(outcome: Outcome) -> String {
    match outcome {
        Outcome::Rewritten(version) => format!("rewritten at {version}"),
        Outcome::Unchanged => "unchanged".to_owned(),
        Outcome::Gone => "gone".to_owned(),
        Outcome::Refused(failure) if failure.reason.is_empty() => "refused".to_owned(),
        Outcome::Refused(failure) => format!("refused {}", failure.reason),
        Outcome::Conflict(_) => "conflict".to_owned(),
        Outcome::Deferred(_) => "deferred".to_owned(),
    }
}

#[test]
fn an_answer_to_a_visit_means() {
    let table = [
        ("200 with the listed resourceVersion", Ok(("uid-a", "1")), "unchanged"),
        ("200 with another resourceVersion", Ok(("uid-a", "2")), "rewritten at 2"),
        ("200 of an object re-created under the name", Ok(("uid-z", "1")), "rewritten at 1"),
        ("400", Err(failure(400, "bad request")), "refused"),
        ("401, a token just expired", Err(failure(401, "unauthorized")), "deferred"),
        ("403 by admission", Err(failure(403, "denied by policy")), "refused"),
        ("404 of the object", Err(about(404, "widgets", "a")), "look again"),
        ("404 of its namespace", Err(about(404, "namespaces", "shop")), "look again"),
        ("404 of a secret, by a webhook", Err(about(404, "secrets", "key")), "look again"),
        ("404 of the endpoint, without details", Err(failure(404, "page not found")), "deferred"),
        ("404 of the endpoint, with empty details", Err(about(404, "", "")), "deferred"),
        ("408", Err(failure(408, "timeout")), "deferred"),
        ("409", Err(failure(409, "the object has been modified")), "conflict"),
        ("413", Err(failure(413, "too large")), "refused"),
        ("422", Err(failure(422, "invalid")), "refused"),
        ("429", Err(failure(429, "slow down")), "deferred"),
        ("500 of a webhook that is down", Err(failure(500, "failed calling webhook")), "deferred"),
        ("500 of etcd without space", Err(failure(500, "etcdserver: mvcc: no space")), "deferred"),
        ("500 of etcd's limit", Err(failure(500, "etcdserver: request is too large")), "refused"),
        (
            "500 of gRPC's limit",
            Err(failure(500, "trying to send message larger than max (3 vs. 2)")),
            "refused",
        ),
        ("500 of one object that can't be decoded", Err(failure(500, "object not decodable")), "deferred"),
        ("502", Err(failure(502, "bad gateway")), "deferred"),
        ("503", Err(failure(503, "apiserver is shutting down")), "deferred"),
        ("504", Err(failure(504, "timeout")), "deferred"),
        ("a redirect", Err(failure(302, "elsewhere")), "refused"),
        ("no answer", Err(no_answer()), "deferred"),
    ];
    for (case, answer, expected) in table {
        assert_eq!(visit(answer), expected, "{case}");
    }
}

#[test]
fn a_second_look_at_an_object_that_was_not_found_means() {
    let own = || about(404, "widgets", "a");
    let core_group = Failure {
        details: Some(Details { name: "a".to_owned(), kind: "widgets".to_owned(), ..Details::default() }),
        ..failure(404, "not found")
    };
    let table = [
        ("it is there, its namespace is not", about(404, "namespaces", "shop"), Ok(()), "refused Orphaned"),
        ("it is there, a secret is not", about(404, "secrets", "key"), Ok(()), "refused NotFoundElsewhere"),
        ("it is there after all", own(), Ok(()), "refused NotFoundElsewhere"),
        ("it is not there", own(), Err(own()), "gone"),
        ("it is not there, said without the group", own(), Err(core_group), "gone"),
        ("a secret was missing, and it is not there either", about(404, "secrets", "a"), Err(own()), "gone"),
        ("another object is not there", own(), Err(about(404, "widgets", "b")), "refused"),
        ("a namesake of another kind is not there", own(), Err(about(404, "secrets", "a")), "refused"),
        ("the endpoint is not there", own(), Err(failure(404, "page not found")), "refused"),
        ("it can't be read", own(), Err(failure(500, "corrupt object")), "refused"),
        ("it may not be read", own(), Err(failure(403, "forbidden")), "refused"),
        ("the token has expired", own(), Err(failure(401, "unauthorized")), "deferred"),
        ("the server is busy", own(), Err(failure(429, "slow down")), "deferred"),
        ("the server is down", own(), Err(failure(503, "down")), "deferred"),
        ("no answer", own(), Err(no_answer()), "deferred"),
    ];
    for (case, first, look, expected) in table {
        assert_eq!(second_look(first, look), expected, "{case}");
    }
}

#[test]
fn a_refusal_of_an_object_that_exists_keeps_the_words_of_the_server_and_says_what_to_do() {
    let first = about(404, "namespaces", "shop");
    let outcome = read_second_look(&target().unwrap(), &object("a", "1"), first, Ok(()));
    assert!(matches!(outcome, Outcome::Refused(f) if f.code == Some(404)
        && f.message == "said (its namespace is gone: create the namespace again, or delete the object)"));
}

#[test]
fn an_answer_to_a_list_means() {
    let with_next = Failure { continue_token: Some("next".to_owned()), ..failure(410, "expired") };
    let failed = |code| failure(code, "said");
    let unreadable = Failure { reason: "StorageReadError".to_owned(), ..failed(500) };
    let table = [
        ("200", Ok(page(&["a"], None)), true, "listed"),
        ("410 with a token to go on with", Err(with_next.clone()), true, "expired, next"),
        ("410 without one", Err(failed(410)), true, "expired"),
        ("410 of the first page is no expired token", Err(with_next), false, "deferred"),
        ("400 of a token that can't be read", Err(failed(400)), true, "expired"),
        ("400 without a token", Err(failed(400)), false, "deferred"),
        ("403", Err(failed(403)), true, "denied"),
        ("404 of the endpoint", Err(failed(404)), false, "deferred"),
        ("429", Err(failed(429)), true, "deferred"),
        ("500", Err(failed(500)), true, "deferred"),
        ("500 of one object that can't be read", Err(unreadable), true, "unreadable"),
        ("503", Err(failed(503)), false, "deferred"),
        ("no answer", Err(no_answer()), true, "deferred"),
    ];
    for (case, answer, with_token, expected) in table {
        let found = match read_list(answer, with_token) {
            Listing::Listed(_) => "listed".to_owned(),
            Listing::ListedElsewhere(_) => "listed elsewhere".to_owned(),
            Listing::Expired(token) => token.map_or("expired".to_owned(), |t| format!("expired, {t}")),
            Listing::Denied(_) => "denied".to_owned(),
            Listing::Unreadable(_) => "unreadable".to_owned(),
            Listing::Deferred(_) => "deferred".to_owned(),
        };
        assert_eq!(found, expected, "{case}");
    }
}

#[test]
fn a_failure_concerns_the_whole_cluster_where() {
    let gone = Failure { unreached: true, ..no_answer() };
    let table = [
        ("no server is reached", gone, Scope::Cluster),
        ("the token is not accepted", failure(401, "Unauthorized"), Scope::Cluster),
        ("etcd is full", failure(500, "etcdserver: mvcc: database space exceeded"), Scope::Cluster),
        ("etcd has no leader", failure(503, "etcdserver: no leader"), Scope::Cluster),
        ("an object is too large for etcd", failure(500, "etcdserver: request is too large"), Scope::Target),
        ("a webhook quotes etcd", failure(403, "denied: etcdserver: no leader"), Scope::Target),
        ("a webhook is down", failure(500, "failed calling webhook"), Scope::Target),
        ("the server is busy", failure(429, "slow down"), Scope::Target),
        ("a handler is retired", failure(503, "apiserver is shutting down"), Scope::Target),
        ("a connection breaks", no_answer(), Scope::Target),
    ];
    for (case, failure, scope) in table {
        assert_eq!(failure.scope(), scope, "{case}");
    }
}

#[test]
fn a_lack_of_a_right_is_told_by_code_and_words() {
    let of_a_right = r#"widgets.example.com "a" is forbidden: User "restow" cannot patch resource "widgets""#;
    let by_admission = r#"widgets.example.com "a" is forbidden: User "restow" is too late"#;
    let table = [
        (403, of_a_right, true),
        (403, by_admission, false),
        (403, "an admission webhook says that it cannot be", false),
        (422, of_a_right, false),
        (500, "it is broken", false),
    ];
    for (code, said, expected) in table {
        assert_eq!(failure(code, said).is_lack_of_right(), expected, "{code}: {said}");
    }
}

#[test]
fn a_failure_is_shown_with_what_is_known_of_it() {
    let named = Failure { reason: "Invalid".to_owned(), ..failure(422, "spec.size") };
    assert_eq!(named.to_string(), "422 Invalid: spec.size");
    assert_eq!(Failure { reason: String::new(), ..named }.to_string(), "422: spec.size");
    assert_eq!(no_answer().to_string(), "connection reset");
}

use super::{MESSAGE_MAX, Refusals};
use crate::api::REFUSALS_LISTED_MAX;
use crate::plan::Failure;
use crate::plan::sample::{failure, object};

#[test]
fn the_total_is_exact_and_the_list_is_capped() {
    let mut refusals = Refusals::default();
    for n in 0..10_000 {
        refusals.add(&object(&n.to_string(), "1"), &failure(422, "invalid"), 3);
    }
    assert_eq!(refusals.total(), 10_000);
    let names: Vec<&str> = refusals.listed().iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
}

#[test]
fn a_refusal_keeps_what_the_server_said_and_cuts_it_between_characters() {
    let mut refusals = Refusals::default();
    let said = Failure { reason: "Invalid".to_owned(), ..failure(422, &"é".repeat(MESSAGE_MAX)) };
    refusals.add(&object("a", "1"), &said, 3);
    let no_answer = Failure { code: None, ..said };
    refusals.add(&object("b", "1"), &no_answer, 1);
    let [first, second] = refusals.listed() else { unreachable!("two are listed") };
    assert_eq!((first.namespace.as_deref(), first.name.as_str(), first.code), (Some("shop"), "a", 422));
    assert_eq!((first.reason.as_str(), first.attempts, first.message.len()), ("Invalid", 3, MESSAGE_MAX));
    assert_eq!((second.code, second.attempts), (0, 1));
}

#[test]
fn refusals_of_before_a_restart_are_carried_over_up_to_their_number() {
    let mut before = Refusals::default();
    for n in 0..REFUSALS_LISTED_MAX {
        before.add(&object(&n.to_string(), "1"), &failure(422, "invalid"), 3);
    }
    let table = [
        ("none", 0, 0),
        ("fewer than are listed", 4, 4),
        ("more than are listed", 5000, 10),
        ("too many", u64::MAX, 10),
    ];
    for (case, total, listed) in table {
        let mut carried = Refusals::carried_over(total, before.listed());
        assert_eq!((carried.total(), carried.listed().len()), (total, listed), "{case}");
        carried.add(&object("a", "1"), &failure(422, "invalid"), 3);
        assert_eq!(carried.total(), total.saturating_add(1), "{case}: one more");
    }
}

use std::collections::BTreeSet;

use super::{Reason, State};
use crate::api::{ConditionType, Conditions};

#[test]
fn every_reason_is_in_the_list_once_and_has_a_word_of_its_own() {
    // The last variant's number: a variant that is missing from the list, or is in it twice, leaves a gap.
    let numbers: BTreeSet<usize> = Reason::ALL.into_iter().map(|r| r as usize).collect();
    assert_eq!(numbers.len(), Reason::ALL.len());
    assert_eq!(numbers.last().copied(), Some(Reason::InvalidSpec as usize), "InvalidSpec is the last one");
    let words: BTreeSet<&str> = Reason::ALL.into_iter().map(Reason::as_str).collect();
    assert_eq!(words.len(), Reason::ALL.len());
    for reason in Reason::ALL {
        assert_eq!(format!("{reason:?}"), reason.as_str());
    }
}

#[test]
fn conditions_say_the_state_of_each_reason_and_are_read_back() {
    for reason in Reason::ALL {
        let conditions = Conditions::build(&[], reason, "said", 3, jiff::Timestamp::UNIX_EPOCH);
        let found: Vec<(&str, &str)> =
            conditions.iter().map(|c| (c.type_.as_str(), c.status.as_str())).collect();
        let expected = match reason.state() {
            State::Done => vec![("Succeeded", "True")],
            State::Working => vec![("Succeeded", "Unknown"), ("Reconciling", "True")],
            State::Stalled => vec![("Succeeded", "False"), ("Stalled", "True")],
        };
        assert_eq!(found, expected, "{reason}");
        assert_eq!(Conditions::reason(&conditions), Some(reason));
    }
    assert_eq!(Conditions::reason(&[]), None);
    assert_eq!(ConditionType::Stalled.as_str(), "Stalled");
}

#[test]
fn a_message_is_cut_between_characters() {
    let conditions =
        Conditions::build(&[], Reason::Waiting, &"é".repeat(5000), 1, jiff::Timestamp::UNIX_EPOCH);
    assert!(conditions.iter().all(|c| c.message.len() == 4096));
}

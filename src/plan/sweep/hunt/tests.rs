use std::collections::BTreeMap;

use super::{Hunt, Hunted, KEY_MAX, Stage, beginnings_after};

/// Those that can be read, those that can't, where the list fails, and what is found.
type Row<'a> = (&'a str, &'a [&'a str], &'a [&'a str], &'a str, &'a str);

/// Keys, and whether each can be read.
fn world(good: &[&str], bad: &[&str]) -> BTreeMap<String, bool> {
    let with = |keys: &[&str], readable| -> Vec<_> {
        keys.iter().map(|key| ((*key).to_owned(), readable)).collect()
    };
    with(good, true).into_iter().chain(with(bad, false)).collect()
}

/// What is found after `low`, and with how many probes.
fn hunt(world: &BTreeMap<String, bool>, low: &str) -> (Option<String>, u32) {
    let mut hunt = Hunt::new(low.to_owned());
    for probes in 1..20_000 {
        let after = hunt.probe();
        assert!(!after.contains("//") && !after.starts_with('/'), "{after:?}");
        // A list of one object: the first after the key, if there is one.
        let readable = world.iter().find(|(key, _)| **key > after).is_none_or(|(_, readable)| *readable);
        match hunt.answered(readable) {
            Hunted::Open(next) => hunt = next,
            Hunted::Found(key) => return (Some(key), probes),
            Hunted::Readable | Hunted::Nothing => return (None, probes),
        }
    }
    (None, 20_000)
}

#[test]
fn the_object_is_found_wherever_it_is() {
    let long = "z".repeat(63) + "/" + &"y".repeat(253);
    let long = long.as_str();
    let table: [Row<'_>; 16] = [
        ("among others", &["default/w1", "default/w3"], &["default/w2"], "default/w1", "default/w2"),
        ("as the first one", &["default/w3"], &["default/w2"], "", "default/w2"),
        ("as the last one", &["default/w1"], &["shop/a"], "default/w1", "shop/a"),
        ("as the only one", &[], &["a"], "", "a"),
        ("right after the one before", &["a"], &["a-"], "a", "a-"),
        ("as the first of the next namespace", &["a/z", "b/z"], &["b/a"], "a/z", "b/a"),
        ("as the first of all", &["a/b", "b/a"], &["a/a"], "", "a/a"),
        ("as the first of all, in a namespace of its own", &["b/a"], &["a/a"], "", "a/a"),
        ("far before another that can't be read", &["aaa", "nut"], &["mango", "zebra"], "aaa", "mango"),
        ("in the next namespace", &["a/z", "b.c/z"], &["b/a"], "b.c/z", "b/a"),
        ("with a longer name", &["w1", "w2"], &["w1.example.com"], "w1", "w1.example.com"),
        ("before a namesake that is longer", &["w1", "w20"], &["w2"], "w1", "w2"),
        ("with the longest of names", &["a"], &[long], "a", long),
        ("close before another that can't be read", &["w1", "w3", "w5"], &["w2", "w4"], "w1", "w2"),
        ("the last of neighbours", &["w1", "w5"], &["w2", "w3", "w4"], "w1", "w4"),
        ("the last of all", &[], &["a/a", "a/b", "b/a"], "", "b/a"),
    ];
    for (case, good, bad, low, expected) in table {
        let (found, probes) = hunt(&world(good, bad), low);
        assert_eq!(found.as_deref(), Some(expected), "{case}");
        // With each letter of either there are 39 ends and the key itself at most.
        let probes_max = 4 + 40 * (low.len() + expected.len());
        assert!(probes as usize <= probes_max, "{case}: {probes} probes");
    }
}

#[test]
fn one_that_cant_be_read_is_found_among_any_others() {
    let mut rng = 0x9E37_79B9_7F4A_7C15u64;
    let mut number = |below: usize| {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(rng >> 40).unwrap_or_default() % below
    };
    for round in 0..300 {
        let mut name = || {
            (0..=number(3)).map(|_| ["a", "b", "z", "0", "a-", "9.", "b.c"][number(7)]).collect::<String>()
        };
        let keys: Vec<_> = (0..12).map(|_| format!("{}a/{}0", name(), name())).collect();
        let bad = keys[number(12)].clone();
        let world: BTreeMap<_, _> = keys.into_iter().map(|key| (key.clone(), key != bad)).collect();
        let low = world.keys().take_while(|key| **key < bad).last().cloned().unwrap_or_default();
        assert_eq!(hunt(&world, &low).0, Some(bad), "round {round}: {world:?}");
    }
}

#[test]
fn where_nothing_can_be_listed_or_everything_again_no_object_is_found() {
    assert_eq!(Hunt::new("a".to_owned()).answered(false), Hunted::Nothing);
    assert_eq!(hunt(&world(&["a", "b"], &[]), "a"), (None, 2));
    assert_eq!(hunt(&world(&[], &[]), ""), (None, 2));
}

#[test]
fn a_hunt_ends_whatever_is_answered() {
    for seed in 1u64..500 {
        let mut hunt = Hunt::new("default/w1".to_owned());
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut ended = false;
        for _ in 0..10_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            match hunt.answered(random.is_multiple_of(2)) {
                Hunted::Open(next) => hunt = next,
                Hunted::Found(_) | Hunted::Readable | Hunted::Nothing => {
                    ended = true;
                    break;
                }
            }
        }
        assert!(ended, "seed {seed}");
    }
}

#[test]
fn no_request_is_made_for_what_is_known() {
    let later: Vec<String> = beginnings_after("b/a").into_iter().skip(1).collect();
    assert!(later.iter().all(|beginning| beginning.as_str() > "b/a"), "{later:?}");
    // To the end, once more from the start, to the end of what begins with it, the letters up to the one, and it itself.
    assert_eq!(hunt(&world(&["a"], &["a-"]), "a"), (Some("a-".to_owned()), 5));
}

/// The key that came last, where each answer is what `answer` makes of the stage, until the hunt ends with nothing.
fn in_vain(answer: impl Fn(&Stage) -> bool) -> Option<String> {
    let (mut hunt, mut last) = (Hunt::new("w".to_owned()), String::new());
    for _ in 0..2000 {
        if let Stage::At(key) = &hunt.stage {
            last.clone_from(key);
        }
        let readable = answer(&hunt.stage);
        hunt = match hunt.answered(readable) {
            Hunted::Open(next) => next,
            Hunted::Nothing => return Some(last),
            Hunted::Found(_) | Hunted::Readable => return None,
        };
    }
    None
}

#[test]
fn answers_that_make_no_sense_end_it() {
    assert_eq!(in_vain(|stage| matches!(stage, Stage::Empty)).as_deref(), Some(""));
    let longest = in_vain(|stage| matches!(stage, Stage::Empty | Stage::Beginning(_)));
    assert_eq!(longest.map(|key| key.len()), Some(KEY_MAX));
}

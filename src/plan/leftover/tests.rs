use super::{LastingVersion, Manager, Mentions, Owner};

fn found(owners: &[(&str, &str)], managers: &[(&str, &str)], is_own: bool) -> Vec<String> {
    let lasting = LastingVersion {
        group: "example.com".to_owned(),
        kind: "Widget".to_owned(),
        version: "v1".to_owned(),
    };
    let owner = |(api_version, kind): &(&str, &str)| Owner {
        api_version: (*api_version).to_owned(),
        kind: (*kind).to_owned(),
        name: "w".to_owned(),
    };
    let manager = |(api_version, name): &(&str, &str)| Manager {
        api_version: (*api_version).to_owned(),
        name: (*name).to_owned(),
    };
    let mentions = Mentions {
        owners: owners.iter().map(owner).collect(),
        managers: managers.iter().map(manager).collect(),
    };
    lasting.leftovers(mentions, is_own).iter().map(ToString::to_string).collect()
}

#[test]
fn what_names_another_version_of_the_kind_is_left_over() {
    let old = "ownerReferences has Widget w at example.com/v1beta1";
    assert_eq!(found(&[("example.com/v1beta1", "Widget")], &[], false), [old]);
    let managers =
        [("example.com/v1beta1", "kubectl"), ("example.com/v1beta1", "kubectl"), ("example.com/v1", "x")];
    assert_eq!(found(&[], &managers, true), ["managedFields has kubectl at example.com/v1beta1"]);
}

#[test]
fn the_storage_version_other_groups_and_other_kinds_are_not() {
    let owners = [
        ("example.com/v1", "Widget"),
        ("example.com/v1beta1", "Gadget"),
        ("other.com/v1beta1", "Widget"),
        ("v1beta1", "Widget"),
    ];
    assert_eq!(found(&owners, &[("example.com/v1", "x"), ("v1", "y")], true), Vec::<String>::new());
    // Another kind of the group has a v1beta1 of its own.
    assert_eq!(found(&[], &[("example.com/v1beta1", "x")], false), Vec::<String>::new());
}

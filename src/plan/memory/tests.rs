use proptest::prelude::*;

use super::{Memory, OBJECTS_MAX};
use crate::plan::Object;
use crate::plan::sample::object;

proptest! {
    #[test]
    fn what_was_remembered_is_known_and_nothing_else(
        remembered in proptest::collection::hash_set(("[a-c]{1,2}", "[0-9]{1,2}"), 0..40),
        asked in ("[a-c]{1,2}", "[0-9]{1,2}"),
    ) {
        let mut memory = Memory::default();
        for (uid, resource_version) in &remembered {
            memory.remember(uid, resource_version);
        }
        let (uid, resource_version) = asked.clone();
        let object = Object { uid, ..object("a", &resource_version) };
        prop_assert_eq!(memory.knows(&object), remembered.contains(&asked));
    }
}

#[test]
fn another_resource_version_or_another_uid_is_not_known() {
    let mut memory = Memory::default();
    memory.remember("uid-a", "1");
    assert!(memory.knows(&object("a", "1")));
    assert!(!memory.knows(&object("a", "2")));
    assert!(!memory.knows(&object("b", "1")));
}

#[test]
fn past_its_bound_nothing_more_is_remembered() {
    let mut memory = Memory { hashes: (0..OBJECTS_MAX as u64).collect(), ..Memory::default() };
    memory.remember("uid-a", "1");
    assert_eq!(memory.hashes.len(), OBJECTS_MAX);
}

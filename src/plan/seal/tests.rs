use super::Seal;
use crate::api::{Checkpoint, CheckpointPhase};

fn checkpoint() -> Checkpoint {
    Checkpoint {
        crd_uid: "crd-1".to_owned(),
        storage_version: "v1".to_owned(),
        crd_generation: 7,
        conversion: "{}".to_owned(),
        phase: CheckpointPhase::Confirming,
        continue_token: Some("there".to_owned()),
        rewritten: 5,
        unchanged: 4,
        gone: 3,
        refused: 0,
        api_servers_heard: false,
        seal: None,
    }
}

#[test]
fn a_seal_holds_for_what_it_was_put_on_and_nothing_else() {
    let seal = Seal::new(&[7; 64], "migration-1");
    let sealed = seal.put_on(checkpoint());
    assert!(seal.is_on(&sealed));
    let table = [
        ("no seal", checkpoint()),
        ("another place", Checkpoint { continue_token: Some("end".to_owned()), ..sealed.clone() }),
        ("another generation", Checkpoint { crd_generation: 8, ..sealed.clone() }),
        ("another CRD", Checkpoint { crd_uid: "crd-2".to_owned(), ..sealed.clone() }),
        ("another version", Checkpoint { storage_version: "v2".to_owned(), ..sealed.clone() }),
        ("more seen", Checkpoint { api_servers_heard: true, ..sealed.clone() }),
        ("no hex", Checkpoint { seal: Some("€".to_owned()), ..sealed.clone() }),
        (
            "half of it",
            Checkpoint { seal: sealed.seal.as_ref().map(|s| s[..32].to_owned()), ..sealed.clone() },
        ),
        ("an empty one", Checkpoint { seal: Some(String::new()), ..sealed.clone() }),
    ];
    for (case, forged) in table {
        assert!(!seal.is_on(&forged), "{case}");
    }
    assert_eq!(format!("{seal:?}"), "Seal { .. }", "the key is nobody's business");
    assert!(!Seal::new(&[7; 64], "migration-2").is_on(&sealed), "another StorageMigration");
    assert!(!Seal::new(&[8; 64], "migration-1").is_on(&sealed), "another key");
}

//! What tools make of an object: kstatus, which Helm and Flux go by, and the Lua of Argo CD. Both are asked by a program of
//! ours in Go (`judge/`) that has their own code in it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::Value;

use crate::binaries::Program;

/// What a tool says of one object, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Verdict {
    /// For kstatus `Current`, `InProgress`, `Failed` and others, for Argo CD `Healthy`, `Progressing`, `Degraded` and others.
    pub status: String,
    /// What users read beside it.
    pub message: String,
}

/// What kstatus says of each object.
///
/// # Panics
/// If it can't be asked.
#[must_use]
pub fn kstatus(objects: &[Value]) -> Vec<Verdict> {
    ask(&["kstatus"], objects)
}

/// What a health check says of each object where Argo CD runs it.
///
/// # Panics
/// If the script fails, or says what Argo CD doesn't know.
#[must_use]
pub fn argo_cd(script: &Path, objects: &[Value]) -> Vec<Verdict> {
    ask(&["lua", script.to_str().expect("a path in UTF-8")], objects)
}

fn ask(args: &[&str], objects: &[Value]) -> Vec<Verdict> {
    let program = Program::Judge.path().expect("judge, which is built with Go");
    let mut judge = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start judge");
    let question = serde_json::to_vec(objects).expect("JSON");
    judge.stdin.take().expect("standard input").write_all(&question).expect("ask judge");
    let output = judge.wait_with_output().expect("wait for judge");
    assert!(output.status.success(), "judge {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("verdicts")
}

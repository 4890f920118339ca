//! A depth-first search over all stories. A state is the list of events so far: `Run` can't be copied, so to take another
//! turn the story is told again from its start.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::event::{Cast, Event};
use super::story::Story;
use super::world::Rules;

/// The longest story: one that is not over by then never ends.
const EVENTS_MAX: usize = 150;

/// What a search found.
#[derive(Debug)]
pub(super) struct Found {
    /// How many states there are.
    pub(super) states: usize,
    /// How many stories came to their end.
    pub(super) ends: usize,
    /// The first story that went wrong, as a trace.
    pub(super) harm: Option<String>,
}

/// Tells all stories, or as many as it takes for one to go wrong.
pub(super) fn search(rules: Rules, cast: Cast, names: &[&'static str]) -> Found {
    let mut found = Found { states: 0, ends: 0, harm: None };
    let mut seen = HashSet::new();
    let mut story = Story::new(rules, cast, names);
    let mut path: Vec<Event> = Vec::new();
    let mut open: Vec<(usize, Event)> = turns(&story, 0);
    while let Some((depth, event)) = open.pop() {
        if depth != path.len() {
            path.truncate(depth);
            story = Story::new(rules, cast, names);
            for event in &path {
                story.play(event);
            }
        }
        story.play(&event);
        path.push(event);
        if story.harm.is_some() || path.len() > EVENTS_MAX {
            let why = story.harm.clone().unwrap_or_else(|| "it never ends".to_owned());
            found.harm = Some(trace(rules, cast, names, &path, &why));
            break;
        }
        let mut hasher = DefaultHasher::new();
        story.digest().hash(&mut hasher);
        if !seen.insert(hasher.finish()) {
            continue;
        }
        if story.is_over() {
            found.ends += 1;
        } else {
            open.extend(turns(&story, path.len()));
        }
    }
    found.states = seen.len();
    found
}

/// What can happen next, the fair course last, as that is taken first.
fn turns(story: &Story, depth: usize) -> Vec<(usize, Event)> {
    story.options().into_iter().rev().map(|event| (depth, event)).collect()
}

fn trace(rules: Rules, cast: Cast, names: &[&'static str], path: &[Event], why: &str) -> String {
    let mut story = Story::new(rules, cast, names);
    let mut lines = vec![format!("{rules:?}")];
    for event in path {
        story.play(event);
        lines.push(story.line(event));
    }
    lines.push(why.to_owned());
    lines.join("\n")
}

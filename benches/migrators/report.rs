//! What is printed and written: a table for people, JSON for whoever wants more.

use std::fmt::Write as _;

use crate::round::Round;

/// The rounds of one contestant, as one.
struct Mean<'a> {
    who: &'a str,
    rounds: Vec<&'a Round>,
}

impl Mean<'_> {
    fn of(&self, what: impl Fn(&Round) -> f64) -> f64 {
        self.rounds.iter().map(|round| what(round)).sum::<f64>() / self.rounds.len() as f64
    }

    fn rate(&self) -> f64 {
        self.of(|it| it.objects as f64) / self.of(|it| it.sweep)
    }
}

/// A Markdown table of the rounds, one row for each contestant: the mean of its rounds.
pub(crate) fn table(rounds: &[Round]) -> String {
    let mut means: Vec<Mean<'_>> = Vec::new();
    for round in rounds {
        match means.iter_mut().find(|mean| mean.who == round.who) {
            Some(mean) => mean.rounds.push(round),
            None => means.push(Mean { who: &round.who, rounds: vec![round] }),
        }
    }
    let rate_of = |who: &str| means.iter().find(|mean| mean.who == who).map(Mean::rate);
    let (ceiling, peer) = (rate_of("bare loop"), rate_of("built-in"));
    let mut text = String::from(
        "| | objects/s | to the bare loop | to the built-in | s to Succeeded | whole/sweep | requests/object | \
         writes/object | conversions/object | CPU s: migrator, API server, etcd, webhook | peak MiB | \
         KiB/object up, down |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for mean in &means {
        let ratio =
            |to: Option<f64>| to.map_or_else(|| "-".to_owned(), |to| format!("{:.2}", mean.rate() / to));
        let per_object = |what: fn(&Round) -> f64| mean.of(|it| what(it) / it.objects as f64);
        let cpu = [0, 1, 2, 3].map(|at| format!("{:.1}", mean.of(|it| it.cpu_seconds[at])));
        let bytes = |way: usize| {
            let kib =
                |it: &Round| it.bytes.map_or(0.0, |bytes| bytes[way] as f64 / 1024.0 / it.objects as f64);
            mean.rounds[0].bytes.map_or_else(|| "-".to_owned(), |_| format!("{:.2}", mean.of(kib)))
        };
        let peak = mean.rounds.iter().map(|it| it.peak_kib).max().unwrap_or_default() as f64 / 1024.0;
        let peak = if peak > 0.0 { format!("{peak:.1}") } else { "-".to_owned() };
        let _ = writeln!(
            text,
            "| {} | {:.0} | {} | {} | {:.1} | {:.3} | {:.3} | {:.3} | {:.2} | {} | {peak} | {}, {} |",
            mean.who,
            mean.rate(),
            ratio(ceiling),
            ratio(peer),
            mean.of(|it| it.to_succeeded),
            mean.of(|it| it.whole / it.sweep),
            per_object(|it| it.requests as f64),
            per_object(|it| it.writes as f64),
            per_object(|it| it.conversions as f64),
            cpu.join(", "),
            bytes(0),
            bytes(1),
        );
    }
    text
}

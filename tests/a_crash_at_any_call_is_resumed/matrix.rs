//! All cases of a phase: each call, before and after.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures::{FutureExt, StreamExt, stream};

use super::chart;
use super::phase::Phase;
use super::scene::{Outcome, Scene};
use super::seen::State;
use crate::harness::Project;
use crate::harness::gate::When;

/// How many cases are played at once: each mostly waits.
const AT_ONCE: usize = 4;

/// Which cases are played.
#[derive(Default)]
pub struct Choice {
    phase: Option<String>,
    call: Option<usize>,
    when: Option<String>,
    step: usize,
}

impl Choice {
    pub fn every(step: usize) -> Self {
        Choice { step, ..Choice::default() }
    }

    /// All, or those of CASE: `upgrade`, `upgrade,7`, `upgrade,7,after`.
    pub fn from_environment() -> Self {
        let text = std::env::var("CASE").unwrap_or_default();
        let mut words = text.split(',').filter(|word| !word.is_empty()).map(str::to_owned);
        let (phase, call) = (words.next(), words.next().map(|word| word.parse().expect("a number of a call")));
        Choice { phase, call, when: words.next(), step: 1 }
    }

    pub fn has(&self, phase: Phase) -> bool {
        self.phase.as_deref().is_none_or(|name| name == phase.name())
    }

    fn cases(&self) -> impl Iterator<Item = (usize, When)> {
        let last = self.call.unwrap_or(usize::MAX);
        let calls = (self.call.unwrap_or(self.step)..=last).step_by(self.step);
        calls.flat_map(|call| [(call, When::Before), (call, When::After)]).filter(|(_, when)| self.has_time(*when))
    }

    fn has_time(&self, when: When) -> bool {
        self.when.as_ref().is_none_or(|only| only == word(when))
    }
}

/// What became of a phase.
pub struct Row {
    pub phase: Phase,
    /// The last call at which an operator was killed. Some runs take more than others.
    pub calls: usize,
    /// In how many it was killed.
    pub cases: usize,
    pub failures: Vec<String>,
}

impl Row {
    pub fn table(rows: &[Row]) -> String {
        let mut table = "phase       calls  cases  failures\n".to_owned();
        for row in rows {
            table += &format!("{:<10} {:>6} {:>6} {:>9}\n", row.phase.name(), row.calls, row.cases, row.failures.len());
        }
        table
    }

    fn note(&mut self, call: usize, when: When, outcome: Outcome) {
        let mut case = format!("{},{call},{}", self.phase.name(), word(when));
        match &outcome.killed_at {
            Some(at) => {
                (self.calls, self.cases) = (self.calls.max(call), self.cases + 1);
                case += &format!(" at {at}");
            }
            None => case += " was not reached",
        }
        match outcome.faults.is_empty() {
            true => println!("{case}: as any other"),
            false => {
                let failure = format!("{case}:\n  {}", outcome.faults.join("\n  "));
                println!("{failure}");
                self.failures.push(failure);
            }
        }
    }
}

/// Plays the chosen cases of a phase, until one comes to its end before it reaches its call.
pub async fn sweep(phase: Phase, choice: &Choice) -> Row {
    let shared = chart::project().await;
    let (wanted, calls) = Scene::set(&shared, phase).await.undisturbed().await;
    phase.check(&wanted);
    let listed: Vec<_> = calls.iter().enumerate().map(|(index, call)| format!("{:>3} {call}", index + 1)).collect();
    println!("{}, undisturbed:\n{}", phase.name(), listed.join("\n"));
    let mut row = Row { phase, calls: 0, cases: 0, failures: vec![] };
    let play = async |(call, when)| (call, when, play(&shared, phase, call, when, &wanted).await);
    let mut cases = std::pin::pin!(stream::iter(choice.cases()).map(play).buffered(AT_ONCE));
    while let Some((call, when, outcome)) = cases.next().await {
        let is_beyond = outcome.killed_at.is_none() && call > calls.len();
        row.note(call, when, outcome);
        if is_beyond {
            break;
        }
    }
    row
}

/// One case. A panic in it is a fault like others: the rest is played too.
async fn play(shared: &Project, phase: Phase, call: usize, when: When, wanted: &State) -> Outcome {
    let case = async { Scene::set(shared, phase).await.killed(call, when, wanted).await };
    let outcome = AssertUnwindSafe(case).catch_unwind().await;
    outcome.unwrap_or_else(|panic| Outcome { killed_at: None, faults: vec![message(panic.as_ref())] })
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

fn word(when: When) -> &'static str {
    match when {
        When::Before => "before",
        When::After => "after",
    }
}

//! The operator's processes while they run: how much memory they use together, and which helm processes there were.
//!
//! A wrapper around helm would count exactly, but would cost as much as it measures. So the list of processes is looked at
//! every [`TICK`]. helm runs for several of those, and the operator's children are known by their parent.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;

use crate::process;

const TICK: Duration = Duration::from_millis(20);
/// Memory changes more slowly than processes come and go.
const TICKS_PER_MEMORY: u32 = 10;

/// helm processes that were started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HelmRuns {
    pub processes: usize,
    /// Those of them that rendered a custom resource. The others ask for the version or try the chart's defaults.
    pub renders: usize,
}

impl std::ops::Sub for HelmRuns {
    type Output = HelmRuns;

    fn sub(self, earlier: HelmRuns) -> HelmRuns {
        HelmRuns { processes: self.processes - earlier.processes, renders: self.renders - earlier.renders }
    }
}

#[derive(Default)]
struct Seen {
    /// Of the operator and its children at one moment.
    peak_kib: u64,
    ended: HelmRuns,
    running: HashMap<u32, Vec<String>>,
}

/// Looks at one operator until it is dropped.
pub struct Tree {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tree {
    pub fn watch(operator: u32) -> Self {
        let (seen, stop) = (Arc::new(Mutex::new(Seen::default())), Arc::new(AtomicBool::new(false)));
        let (shared, end) = (seen.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut known = HashSet::new();
            for tick in 0u32.. {
                if end.load(Ordering::Relaxed) {
                    return;
                }
                look(operator, &mut known, &mut lock(&shared), tick % TICKS_PER_MEMORY == 0);
                std::thread::sleep(TICK);
            }
        });
        Tree { seen, stop, thread: Some(thread) }
    }

    /// All so far.
    pub fn helm(&self) -> HelmRuns {
        let seen = lock(&self.seen);
        seen.running.values().fold(seen.ended, |sum, arguments| add(sum, arguments))
    }

    pub fn peak_kib(&self) -> u64 {
        lock(&self.seen).peak_kib
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `known` are the processes that were looked at before; their parent is not asked for again.
fn look(operator: u32, known: &mut HashSet<u32>, seen: &mut Seen, with_memory: bool) {
    let all: HashSet<u32> = process::all().into_iter().collect();
    let gone: Vec<u32> = seen.running.keys().filter(|pid| !all.contains(*pid)).copied().collect();
    for arguments in gone.iter().filter_map(|pid| seen.running.remove(pid)) {
        seen.ended = add(seen.ended, &arguments);
    }
    for pid in all.difference(known).filter(|pid| process::parent(**pid) == Some(operator)) {
        seen.running.insert(*pid, vec![]);
    }
    *known = all;
    // Until a child has become helm, its arguments are those of the operator.
    if seen.running.values().any(Vec::is_empty) {
        let own = process::arguments(operator);
        for (pid, arguments) in seen.running.iter_mut().filter(|(_, arguments)| arguments.is_empty()) {
            *arguments = Some(process::arguments(*pid)).filter(|it| *it != own).unwrap_or_default();
        }
    }
    if with_memory {
        let pids = seen.running.keys().chain([&operator]);
        let kib = pids.filter_map(|pid| process::memory_kib(*pid, "VmRSS")).sum();
        seen.peak_kib = seen.peak_kib.max(kib);
    }
}

fn add(sum: HelmRuns, arguments: &[String]) -> HelmRuns {
    // The flags come first, then the release.
    let release = arguments.iter().skip_while(|it| *it != "--").nth(1);
    let is_render = arguments.get(1).is_some_and(|it| it == "template")
        && release.is_some_and(|release| crate::fleet::is_release(release));
    HelmRuns { processes: sum.processes + 1, renders: sum.renders + usize::from(is_render) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_counted_once() {
        let tree = Tree::watch(std::process::id());
        let mut child = std::process::Command::new("sleep").arg("0.3").spawn().unwrap();
        child.wait().unwrap();
        let helm = tree.helm();
        assert!(helm.processes >= 1 && helm.renders == 0, "{helm:?}");
        assert!(tree.peak_kib() > 0);
    }
}

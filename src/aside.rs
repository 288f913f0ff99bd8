//! Work that takes long, apart from the threads that answer: parsing of what is large.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Few, since each takes far more memory than the text that it reads, and one processor.
static AT_ONCE: Semaphore = Semaphore::const_new(2);

/// Does a piece of work on a thread of its own, when there is room.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let turn = AT_ONCE.acquire().await;
    let working = tokio::task::spawn_blocking(move || {
        // The work goes on where nobody waits for it any more, and so it keeps its turn.
        let _turn = turn;
        work()
    });
    working.await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()))
}

/// How many pieces of work of one namespace wait or run.
const OF_A_NAMESPACE: usize = 2;
static NAMESPACES: Mutex<BTreeMap<Box<str>, Arc<Semaphore>>> = Mutex::new(BTreeMap::new());

/// The same for data of one namespace. None where as much of the namespace waits or runs already: nobody waits behind all that the
/// tenants of another namespace bring.
pub async fn run_for<T: Send + 'static>(namespace: &str, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let place = place_of(namespace)?;
    let work = move || {
        let _place = place;
        work()
    };
    Some(run(work).await)
}

fn place_of(namespace: &str) -> Option<OwnedSemaphorePermit> {
    let mut namespaces = NAMESPACES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // Those of which nothing waits or runs any more.
    namespaces.retain(|_, places| Arc::strong_count(places) > 1);
    let new = || Arc::new(Semaphore::new(OF_A_NAMESPACE));
    let places = namespaces.entry(namespace.into()).or_insert_with(new).clone();
    places.try_acquire_owned().ok()
}

/// What is shorter is read at once: it takes a millisecond or so.
pub const LONG: usize = 64 * 1024;

/// Does a piece of work about a text of this length, on a thread of its own if that may take long.
pub async fn run_if_long<T: Send + 'static>(length: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    match length >= LONG {
        true => run(work).await,
        false => work(),
    }
}

/// Does a piece of work about a text of this length right here, and has others take over this thread's tasks if that may take
/// long. The result is the same either way.
pub fn here<T>(length: usize, work: impl FnOnce() -> T) -> T {
    let is_shared = || Handle::try_current().is_ok_and(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread);
    match length >= LONG && is_shared() {
        true => tokio::task::block_in_place(work),
        false => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_go_on_while_something_long_is_read() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let other = tokio::spawn(async move { sender.send(()) });
        let reading =
            tokio::spawn(async move { here(LONG, || receiver.recv_timeout(Duration::from_secs(30)).is_ok()) });
        assert!(reading.await.unwrap(), "the only thread was taken");
        other.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_namespace_has_few_pieces_of_work_in_line() {
        let (first, second) = (place_of("attacker").unwrap(), place_of("attacker").unwrap());
        assert!(run_for("attacker", || ()).await.is_none());
        assert_eq!(run_for("bystander", || 1).await, Some(1));
        drop(first);
        assert_eq!(run_for("attacker", || 2).await, Some(2));
        drop(second);
        assert!(place_of("bystander").is_some());
        assert!(!NAMESPACES.lock().unwrap().contains_key("attacker"), "nothing is remembered of it");
    }

    #[tokio::test]
    async fn a_runtime_with_one_thread_reads_all_the_same() {
        assert_eq!((here(LONG, || 1), here(0, || 2), run(|| 3).await), (1, 2, 3));
    }
}

//! Work that takes long, apart from the threads that answer: parsing of what is large.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

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
    async fn a_runtime_with_one_thread_reads_all_the_same() {
        assert_eq!((here(LONG, || 1), here(0, || 2), run(|| 3).await), (1, 2, 3));
    }
}

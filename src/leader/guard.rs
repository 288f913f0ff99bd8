//! No write without the Lease.
//!
//! It stands in two places, below retries and credentials.
//!
//! - Above the connections it refuses writes of an operator that does not hold the Lease. Reading is always allowed, and so is
//!   asking who somebody is and what they may do. The Lease itself has a client of its own.
//! - On the connections it looks right before the kernel gets the bytes. An operator that held the Lease and does not any more
//!   sends nothing there, whatever was waiting: for a connection, for encryption, in a buffer, or for the process to go on.
//!
//! So an operator that was stopped at any point, for any time, starts no write when it goes on.
//!
//! It also knows whether all writes were answered. Who gives the Lease back while one is not would let it land among the writes of
//! the next holder.

mod wire;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, Either, FutureExt, Ready, err};
use http::{Method, Request, Response, StatusCode};
use tokio::sync::watch;
use tower::{BoxError, Layer, Service};

use super::clock::Moment;
use crate::error::{causes, of_service};
pub use wire::GuardedConnector;

/// A write that was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this operator does not hold the Lease any more, so nothing was written")]
pub struct NotHeld;

/// Until when this process may write. Shared by all that write.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Nanoseconds of [`Moment`].
    until: Arc<AtomicU64>,
    writes: Arc<watch::Sender<Writes>>,
}

/// What became of writes.
#[derive(Debug, Default)]
struct Writes {
    under_way: usize,
    /// When one last ended without an answer. It may have been sent.
    unanswered: Option<Moment>,
    /// No other one may begin.
    is_finishing: bool,
}

/// A write that was let through. Whoever gives it up before it is answered leaves it in doubt.
struct UnderWay {
    guard: Guard,
    is_answered: bool,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.guard.writes.send_modify(|writes| {
            writes.under_way -= 1;
            if !self.is_answered {
                writes.unanswered = Some(Moment::now());
            }
        });
    }
}

/// It never held the Lease.
const NEVER: u64 = 0;
/// It gave the Lease back. Every moment is later.
const OVER: u64 = 1;

impl Guard {
    /// One that lets no write through yet.
    pub fn closed() -> Self {
        Guard::default()
    }

    pub fn open_until(&self, moment: Moment) {
        self.until.store(moment.as_nanos().max(OVER), Ordering::SeqCst);
    }

    pub fn close(&self) {
        self.until.store(OVER, Ordering::SeqCst);
    }

    /// A guard for the one who comes after this one, which stays closed. Both know of the writes that were not answered.
    pub fn successor(&self) -> Self {
        self.close();
        self.writes.send_modify(|writes| writes.is_finishing = false);
        Guard { until: Arc::default(), writes: self.writes.clone() }
    }

    /// A process that ended may have sent a write that was not answered.
    pub fn doubt(&self) {
        self.writes.send_modify(|writes| writes.unanswered = Some(Moment::now()));
    }

    /// Lets no write begin any more, and waits until none is under way, for so long at most.
    pub async fn finish(&self, patience: Duration) {
        self.writes.send_modify(|writes| writes.is_finishing = true);
        let mut writes = self.writes.subscribe();
        let answered = writes.wait_for(|writes| writes.under_way == 0);
        let _ = tokio::time::timeout(patience, answered).await;
    }

    /// Whether all writes were answered. One that was not may still arrive for a time.
    pub fn is_settled(&self, time: Duration) -> bool {
        let (writes, now) = (self.writes.borrow(), Moment::now());
        writes.under_way == 0 && writes.unanswered.is_none_or(|at| at.until(now) >= time)
    }

    /// Lets a write begin, if it may.
    fn begin(&self) -> Result<UnderWay, NotHeld> {
        let until = self.until.load(Ordering::SeqCst);
        let may_write = Moment::now().as_nanos() < until;
        let begins = self.writes.send_if_modified(|writes| {
            let begins = may_write && !writes.is_finishing;
            writes.under_way += usize::from(begins);
            begins
        });
        if begins { Ok(UnderWay { guard: self.clone(), is_answered: false }) } else { Err(NotHeld) }
    }

    /// Whether anything may be sent. Who never held the Lease has nothing in its buffers that must not get out.
    fn check_wire(&self) -> io::Result<()> {
        let until = self.until.load(Ordering::SeqCst);
        if until == NEVER || Moment::now().as_nanos() < until { Ok(()) } else { Err(io::Error::other(NotHeld)) }
    }
}

/// Whether something of an error's causes is that the Lease was not held.
pub fn is_refusal(error: &kube::Error) -> bool {
    causes(of_service(error)).any(|cause| cause.is::<NotHeld>())
}

fn is_write<B>(request: &Request<B>) -> bool {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let path = request.uri().path();
    // Behind a proxy the API server's paths may begin with something else.
    let is_review = ["/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/"].iter().any(|it| path.contains(it));
    !is_read && !is_review
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { guard: self.clone(), inner }
    }
}

/// A way to the API server with the guard in it.
#[derive(Clone, Debug)]
pub struct Guarded<S> {
    guard: Guard,
    inner: S,
}

impl<S, B, R> Service<Request<B>> for Guarded<S>
where
    S: Service<Request<B>, Response = Response<R>, Error = BoxError>,
    S::Future: Send + 'static,
    R: 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Either<S::Future, Either<BoxFuture<'static, Answer<R>>, Ready<Answer<R>>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if !is_write(&request) {
            return Either::Left(self.inner.call(request));
        }
        Either::Right(match self.guard.begin() {
            Ok(under_way) => Either::Left(followed(under_way, self.inner.call(request)).boxed()),
            Err(refused) => Either::Right(err(refused.into())),
        })
    }
}

type Answer<R> = Result<Response<R>, BoxError>;

async fn followed<R>(mut under_way: UnderWay, answer: impl Future<Output = Answer<R>>) -> Answer<R> {
    let answer = answer.await;
    // A gateway that waited in vain does not know what became of it either.
    let in_doubt = [StatusCode::BAD_GATEWAY, StatusCode::GATEWAY_TIMEOUT];
    under_way.is_answered = answer.as_ref().is_ok_and(|answer| !in_doubt.contains(&answer.status()));
    answer
}

#[cfg(test)]
mod tests;

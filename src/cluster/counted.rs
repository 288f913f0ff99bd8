//! Every try of a request to the API server, counted by its answer.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use tower::{Layer, Service};

use super::clock;
use crate::telemetry::metrics;

/// Counts what goes to this host.
#[derive(Clone)]
pub struct Counted {
    pub host: Arc<str>,
}

impl<S> Layer<S> for Counted {
    type Service = Counting<S>;

    fn layer(&self, inner: S) -> Counting<S> {
        Counting { inner, host: self.host.clone() }
    }
}

#[derive(Clone)]
pub struct Counting<S> {
    inner: S,
    host: Arc<str>,
}

impl<S, B, R> Service<Request<B>> for Counting<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (method, host) = (request.method().clone(), self.host.clone());
        let waiting = Waiting { method, host, code: None, _running: metrics::request_starts() };
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await;
            // A gateway's error page tells the gateway's time.
            if let Some(answer) = answer.as_ref().ok().filter(|answer| answer.status().is_success()) {
                clock::note(answer.headers());
            }
            waiting.answered(answer.as_ref().ok().map(Response::status));
            answer
        }
        .boxed()
    }
}

/// A request, counted when it has its answer, or when nobody waits for one any more.
struct Waiting {
    method: Method,
    host: Arc<str>,
    code: Option<u16>,
    _running: metrics::Inside,
}

impl Waiting {
    fn answered(mut self, code: Option<StatusCode>) {
        self.code = code.map(|code| code.as_u16());
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        metrics::request_ended(self.code, self.method.as_str(), &self.host);
    }
}

#[cfg(test)]
mod tests {
    use crate::telemetry::metrics::scrape::scrape;

    use super::*;

    #[test]
    fn a_request_that_is_given_up_counts_as_one_without_an_answer() {
        let inner = tower::service_fn(|_: Request<()>| std::future::pending::<Result<Response<()>, std::io::Error>>());
        let mut counting = Counted { host: "given-up:6443".into() }.layer(inner);
        drop(counting.call(Request::new(())));
        let line = r#"rest_client_requests_total{code="<error>",host="given-up:6443",method="GET"} 1"#;
        assert!(scrape(&Default::default()).lines().any(|it| it == line));
    }
}

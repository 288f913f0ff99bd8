//! Calls that are made again.
//!
//! [`Willing`] repeats what the API server asks to repeat (429, 503), and waits as long as it says. [`patient`] adds what nobody
//! answered: a connection that ended, a gateway that found nobody or heard nothing. An install is a row of calls, and without this
//! one broken call in seven would let most rows fail.
//!
//! Repeated after no answer is only what may be done twice: reading, dry runs, patches that say how something is to be. Where such a
//! patch names a version, the repeat of one that was done is a conflict with ourselves: then the object is read, and if it is
//! as the patch wants it, all is well. Whether something was created or deleted is for the next reconcile to find out.
//!
//! Watches are not repeated here: they heal by themselves, see [`crate::watching`]; but one whose answer never begins is given up
//! here, since it looks like one without news.

use std::time::Duration;

use http::{Method, Request, Response, StatusCode, Uri, header};
use kube::Client;
use kube::client::Body;
use kube::client::retry::RetryPolicy;
use serde_json::Value;
use tower::BoxError;
use tower::retry::Policy;

use crate::leader::guard::is_refusal;

/// Before the second try, and before the third, which is the last.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];

/// The API server answers a watch at once, whether there is news or not.
const BEGUN: Duration = Duration::from_secs(20);

/// How often a call is repeated because something is unavailable that does not say for how long. kube's policy would go on for
/// minutes, and so would hold a worker and a slot for calls where an aggregated API is away. These take a third of a second.
const UNAVAILABLE: u32 = 6;

/// kube's policy, but for watches, for what may have been done although nobody says so, and for what is away for longer.
#[derive(Clone)]
pub struct Willing {
    policy: RetryPolicy,
    unavailable: u32,
}

impl Default for Willing {
    fn default() -> Self {
        Willing { policy: RetryPolicy::server_retry(), unavailable: 0 }
    }
}

impl<R> Policy<Request<Body>, Response<R>, BoxError> for Willing {
    type Future = tokio::time::Sleep;

    fn retry(
        &mut self,
        request: &mut Request<Body>,
        answer: &mut Result<Response<R>, BoxError>,
    ) -> Option<Self::Future> {
        match answer {
            // What became of it nobody knows. `patient` does.
            Ok(answer) if answer.status() == StatusCode::GATEWAY_TIMEOUT => None,
            Ok(answer) if is_away(answer) && self.unavailable == UNAVAILABLE => None,
            _ => {
                self.unavailable += u32::from(answer.as_ref().is_ok_and(is_away));
                self.policy.retry(request, answer)
            }
        }
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        if is_watch(request) {
            return None;
        }
        Policy::<Request<Body>, Response<R>, BoxError>::clone_request(&mut self.policy, request)
    }
}

/// Whether something is unavailable and does not say for how long.
fn is_away<R>(answer: &Response<R>) -> bool {
    answer.status() == StatusCode::SERVICE_UNAVAILABLE && !answer.headers().contains_key(header::RETRY_AFTER)
}

/// The same client, with more patience.
pub fn patient(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move { send(&client, request).await }
    });
    Client::new(service, namespace)
}

async fn send(client: &Client, mut request: Request<Body>) -> Answer {
    if is_watch(&request) {
        return within(BEGUN, client.send(request)).await;
    }
    let mut is_repeat = false;
    for pause in PAUSES {
        let Some(again) = copy(&request) else { break };
        let reads = request.method() == Method::GET;
        let answer = once(client, request, is_repeat).await;
        if !is_broken(&answer, reads) {
            return answer;
        }
        tokio::time::sleep(pause).await;
        (request, is_repeat) = (again, true);
    }
    once(client, request, is_repeat).await
}

type Answer = Result<Response<Body>, kube::Error>;

/// One try. A repeat that finds what the call before it has done is answered with that.
async fn once(client: &Client, request: Request<Body>, is_repeat: bool) -> Answer {
    let wanted = if is_repeat && request.method() == Method::PATCH { copy(&request) } else { None };
    let answer = client.send(request).await?;
    match wanted {
        Some(wanted) if answer.status() == StatusCode::CONFLICT => Ok(done(client, wanted).await.unwrap_or(answer)),
        _ => Ok(answer),
    }
}

/// The object of a patch, if it is as the patch wants it, or what is said instead if it is gone.
async fn done(client: &Client, patch: Request<Body>) -> Option<Response<Body>> {
    let path: Uri = patch.uri().path().parse().ok()?;
    let mut read = Request::get(path).body(Body::empty()).ok()?;
    // In whose name it is asked is among them.
    *read.headers_mut() = patch.headers().clone();
    for of_body in [header::CONTENT_TYPE, header::CONTENT_LENGTH] {
        read.headers_mut().remove(of_body);
    }
    let wanted: Value = serde_json::from_slice(&patch.into_body().collect_bytes().await.ok()?).ok()?;
    let (head, body) = client.send(read).await.ok()?.into_parts();
    let body = body.collect_bytes().await.ok()?;
    let is_done = match head.status {
        StatusCode::OK => is_as_wanted(&serde_json::from_slice(&body).ok()?, &wanted),
        code => code == StatusCode::NOT_FOUND,
    };
    is_done.then(|| Response::from_parts(head, Body::from(body)))
}

/// Whether a merge patch would change nothing. The version that it wants is that of before.
fn is_as_wanted(live: &Value, patch: &Value) -> bool {
    fn holds(live: Option<&Value>, wanted: &Value) -> bool {
        match (live, wanted) {
            (None | Some(Value::Null), Value::Null) => true,
            (Some(live), Value::Object(fields)) => fields.iter().all(|(key, wanted)| holds(live.get(key), wanted)),
            (None, Value::Object(fields)) => fields.values().all(|wanted| holds(None, wanted)),
            (None, Value::Array(list)) => list.is_empty(),
            (live, wanted) => live == Some(wanted),
        }
    }
    let mut patch = patch.clone();
    if let Some(metadata) = patch["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    holds(Some(live), &patch)
}

async fn within<T>(limit: Duration, answer: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    let late = || kube::Error::Service(format!("no answer within {} s", limit.as_secs_f32()).into());
    tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Err(late()))
}

fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().unwrap_or_default().split('&').any(|pair| pair == "watch=true")
}

/// Whether nobody knows what became of a call, or asking once more is harmless.
fn is_broken(answer: &Answer, reads: bool) -> bool {
    match answer {
        Err(error) => !is_refusal(error),
        Ok(answer) => {
            let status = answer.status();
            // An internal error to an apply may be the API server's word for a wrong object.
            matches!(status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT)
                || reads && status == StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

/// A copy of a call that may be made twice.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    if !is_repeatable(request) {
        return None;
    }
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

fn is_repeatable(request: &Request<Body>) -> bool {
    let says = |wanted: &str| request.uri().query().unwrap_or_default().split('&').any(|pair| pair == wanted);
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    match *request.method() {
        Method::GET => !is_watch(request),
        Method::PATCH => says("dryRun=All") || !kind.starts_with("application/json-patch"),
        Method::POST | Method::PUT => says("dryRun=All"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;
    use tower::retry::RetryLayer;
    use tower::{Layer, ServiceExt};

    use super::*;

    fn request(method: Method, uri: &str, kind: &str) -> Request<Body> {
        Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", kind)
            .body(Body::from(b"{}".to_vec()))
            .unwrap()
    }

    #[test]
    fn only_what_may_be_done_twice_is_repeated() {
        let apply = "application/apply-patch+yaml";
        assert!(is_repeatable(&request(Method::GET, "/api/v1/pods?limit=5", "")));
        assert!(is_repeatable(&request(Method::PATCH, "/x?force=true", apply)));
        assert!(is_repeatable(&request(Method::PATCH, "/x?dryRun=All&force=true", apply)));
        assert!(!is_repeatable(&request(Method::GET, "/api/v1/pods?watch=true&x=y", "")));
        assert!(!is_repeatable(&request(Method::POST, "/api/v1/secrets", "")));
        assert!(is_repeatable(&request(Method::PATCH, "/x", "application/merge-patch+json")));
        assert!(!is_repeatable(&request(Method::PATCH, "/x", "application/json-patch+json")));
        assert!(!is_repeatable(&request(Method::DELETE, "/x", "")));
    }

    /// A client whose first answers are these, and whose later ones are good; and how often it was asked.
    fn failing(first: Vec<Option<u16>>) -> (Client, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let (counter, first) = (asked.clone(), Arc::new(first));
        let service = tower::service_fn(move |_: Request<Body>| {
            let number = counter.fetch_add(1, Ordering::Relaxed);
            let answer = first.get(number).copied().unwrap_or(Some(200));
            async move {
                match answer {
                    Some(code) => Ok(http::Response::builder().status(code).body(Body::empty()).unwrap()),
                    None => Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
                }
            }
        });
        (patient(Client::new(service, "default")), asked)
    }

    async fn asked(method: Method, first: Vec<Option<u16>>) -> (Option<u16>, usize) {
        let (client, asked) = failing(first);
        let answer = client.send(request(method, "/x", "application/apply-patch+yaml")).await;
        (answer.ok().map(|answer| answer.status().as_u16()), asked.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn a_watch_that_is_never_answered_is_given_up() {
        let answer = within(Duration::from_millis(10), std::future::pending::<Result<(), kube::Error>>()).await;
        assert!(format!("{:?}", answer.unwrap_err()).contains("no answer within 0.01 s"));
    }

    #[tokio::test]
    async fn a_broken_call_is_made_three_times_at_most() {
        assert_eq!(asked(Method::GET, vec![None, Some(502)]).await, (Some(200), 3));
        assert_eq!(asked(Method::GET, vec![None; 9]).await, (None, 3));
        assert_eq!(asked(Method::PATCH, vec![None]).await, (Some(200), 2));
        assert_eq!(asked(Method::PATCH, vec![Some(504)]).await, (Some(200), 2));
        assert_eq!(asked(Method::POST, vec![None]).await, (None, 1));
        assert_eq!(asked(Method::POST, vec![Some(504)]).await, (Some(504), 1), "it may have been done");
        assert_eq!(asked(Method::PATCH, vec![Some(500)]).await, (Some(500), 1), "it may be the object that is wrong");
        assert_eq!(asked(Method::GET, vec![Some(404)]).await, (Some(404), 1));
    }

    /// What becomes of a patch that was done and not answered, where this is the object then.
    async fn repeated(patch: Value, live: Value) -> u16 {
        let asked = Arc::new(AtomicUsize::new(0));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (number, live) = (asked.fetch_add(1, Ordering::Relaxed), live.to_string());
            async move {
                match (number, request.method()) {
                    (0, _) => Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
                    (_, &Method::GET) => {
                        let names: Vec<_> = request.headers().keys().map(ToString::to_string).collect();
                        assert_eq!(names, ["impersonate-user"], "it is asked in the same name");
                        Ok(Response::new(Body::from(live.into_bytes())))
                    }
                    _ => Ok(Response::builder().status(409).body(Body::empty()).unwrap()),
                }
            }
        });
        let request = Request::patch("/x?fieldManager=a").header("content-type", "application/merge-patch+json");
        let request = request.header("impersonate-user", "somebody");
        let request = request.body(Body::from(patch.to_string().into_bytes())).unwrap();
        patient(Client::new(service, "default")).send(request).await.unwrap().status().as_u16()
    }

    #[tokio::test]
    async fn a_repeat_that_meets_with_our_own_change_is_no_conflict() {
        let patch = json!({"metadata": {"resourceVersion": "1", "ownerReferences": null, "labels": {"a": "b"}}, "data": {"x": "eA=="}});
        let done = json!({"metadata": {"resourceVersion": "2", "labels": {"a": "b", "c": "d"}}, "data": {"x": "eA==", "y": "eQ=="}});
        assert_eq!(repeated(patch.clone(), done).await, 200);
        let other = json!({"metadata": {"resourceVersion": "2", "labels": {"a": "b"}}, "data": {"x": "eQ=="}});
        assert_eq!(repeated(patch, other).await, 409, "somebody else has changed it");
    }

    #[tokio::test]
    async fn what_is_away_is_given_up_within_a_moment() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = asked.clone();
        let inner = tower::service_fn(move |_: Request<Body>| {
            counter.fetch_add(1, Ordering::Relaxed);
            async { Ok::<_, BoxError>(Response::builder().status(503).body(()).unwrap()) }
        });
        let stack = RetryLayer::new(Willing::default()).layer(inner);
        let began = std::time::Instant::now();
        let answer = stack.oneshot(request(Method::GET, "/apis/away.example.com/v1", "")).await.unwrap();
        assert_eq!((answer.status().as_u16(), asked.load(Ordering::Relaxed)), (503, 7));
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn only_what_the_api_server_asks_to_repeat_is_repeated_below() {
        let answered = async |method: Method, uri: &str, code: u16| {
            let asked = Arc::new(AtomicUsize::new(0));
            let counter = asked.clone();
            let inner = tower::service_fn(move |_: Request<Body>| {
                let first = counter.fetch_add(1, Ordering::Relaxed) == 0;
                async move {
                    Ok::<_, BoxError>(Response::builder().status(if first { code } else { 200 }).body(()).unwrap())
                }
            });
            let stack = RetryLayer::new(Willing::default()).layer(inner);
            stack.oneshot(request(method, uri, "")).await.unwrap();
            asked.load(Ordering::Relaxed)
        };
        assert_eq!(answered(Method::POST, "/x", 429).await, 2);
        assert_eq!(answered(Method::POST, "/x", 504).await, 1);
        assert_eq!(answered(Method::DELETE, "/x", 504).await, 1);
        assert_eq!(answered(Method::GET, "/x?watch=true", 503).await, 1, "watches have pauses of their own");
    }
}

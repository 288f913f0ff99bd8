//! Who may read metrics, asked of the API server as controller-runtime asks it: TokenReview says who it is, SubjectAccessReview
//! whether it may `get` the path.
//!
//! Answers are kept for a while, under the hash of the token. Where the API server cannot be asked, nobody is let in. A token is
//! never told to anybody else.
//!
//! Anybody may send tokens. So only a few are asked about at once, and an API server that does not answer is told of once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::StatusCode;
use http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};
use ring::digest::{SHA256, digest};
use tokio::sync::Semaphore;

use super::{Answer, Question, text};
use crate::error::sentence;

/// How long a yes holds, and how long a no.
const ALLOWED: Duration = Duration::from_secs(60);
const REFUSED: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(10);
/// Whoever tries out tokens does not fill the memory.
const MOST_KEPT: usize = 1000;
/// Whoever tries out tokens does not make the operator flood the API server.
const MOST_ASKED: usize = 4;
/// How long to wait for one's turn to be asked about.
const TURN: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    Allowed,
    /// The token is nobody's.
    Unknown,
    /// This user may not.
    Forbidden(String),
}

/// The token's hash, and what is asked for.
type Key = (Vec<u8>, String, String);

pub struct Access {
    kept: Mutex<HashMap<Key, (Verdict, Instant)>>,
    turns: Semaphore,
    /// The API server could not be asked the last time.
    is_away: AtomicBool,
}

impl Default for Access {
    fn default() -> Self {
        Access { kept: Mutex::default(), turns: Semaphore::new(MOST_ASKED), is_away: AtomicBool::default() }
    }
}

impl Access {
    /// None lets it pass.
    pub async fn refusal(&self, question: &Question, client: Option<Client>) -> Option<Answer> {
        let Some(token) = token(question) else { return Some(unauthorized()) };
        let verb = question.method().as_str().to_lowercase();
        let key = (digest(&SHA256, token.as_bytes()).as_ref().to_vec(), verb, question.uri().path().to_owned());
        let verdict = match (self.kept(&key), client) {
            (Some(verdict), _) => verdict,
            (None, None) => return Some(text(StatusCode::INTERNAL_SERVER_ERROR, "Not connected yet\n")),
            (None, Some(client)) => match self.ask(client, token, key).await {
                Ok(verdict) => verdict,
                Err(refusal) => return Some(refusal),
            },
        };
        match verdict {
            Verdict::Allowed => None,
            Verdict::Unknown => Some(unauthorized()),
            Verdict::Forbidden(user) => {
                Some(text(StatusCode::FORBIDDEN, format!("Authorization denied for user {user}\n")))
            }
        }
    }

    async fn ask(&self, client: Client, token: &str, key: Key) -> Result<Verdict, Answer> {
        let Ok(Ok(_turn)) = tokio::time::timeout(TURN, self.turns.acquire()).await else {
            return Err(text(StatusCode::SERVICE_UNAVAILABLE, "Too many are asked about at once\n"));
        };
        match review(client, token, &key).await {
            Ok(verdict) => {
                self.is_away.store(false, Ordering::Relaxed);
                Ok(self.keep(key, verdict))
            }
            Err(why) => {
                if !self.is_away.swap(true, Ordering::Relaxed) {
                    tracing::warn!("scrapes are refused, since the API server cannot be asked about them: {why}");
                }
                Err(text(StatusCode::INTERNAL_SERVER_ERROR, "Authentication failed\n"))
            }
        }
    }

    fn kept(&self, key: &Key) -> Option<Verdict> {
        self.locked().get(key).filter(|(_, until)| Instant::now() < *until).map(|(verdict, _)| verdict.clone())
    }

    fn keep(&self, key: Key, verdict: Verdict) -> Verdict {
        let now = Instant::now();
        let mut kept = self.locked();
        kept.retain(|_, (_, until)| now < *until);
        if kept.len() < MOST_KEPT {
            let time = if verdict == Verdict::Allowed { ALLOWED } else { REFUSED };
            kept.insert(key, (verdict.clone(), now + time));
        }
        verdict
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Key, (Verdict, Instant)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unauthorized() -> Answer {
    text(StatusCode::UNAUTHORIZED, "Unauthorized\n")
}

fn token(question: &Question) -> Option<&str> {
    let (scheme, token) = question.headers().get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

async fn review(client: Client, token: &str, (_, verb, path): &Key) -> Result<Verdict, String> {
    let asked = async {
        let Some(user) = user_of(client.clone(), token).await? else { return Ok(Verdict::Unknown) };
        let name = user.username.clone().unwrap_or_default();
        Ok(match is_allowed(client, user, verb, path).await? {
            true => Verdict::Allowed,
            false => Verdict::Forbidden(name),
        })
    };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(answer) => answer.map_err(|error: kube::Error| sentence(&error)),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

async fn user_of(client: Client, token: &str) -> Result<Option<UserInfo>, kube::Error> {
    let spec = TokenReviewSpec { token: Some(token.to_owned()), ..Default::default() };
    let review = TokenReview { spec, ..Default::default() };
    let answer = Api::<TokenReview>::all(client).create(&PostParams::default(), &review).await?;
    let status = answer.status.unwrap_or_default();
    Ok(status.user.filter(|_| status.authenticated == Some(true)))
}

async fn is_allowed(client: Client, user: UserInfo, verb: &str, path: &str) -> Result<bool, kube::Error> {
    let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.to_owned()) };
    let spec = SubjectAccessReviewSpec {
        user: user.username,
        uid: user.uid,
        groups: user.groups,
        extra: user.extra,
        non_resource_attributes: Some(attributes),
        ..Default::default()
    };
    let review = SubjectAccessReview { spec, ..Default::default() };
    let answer = Api::<SubjectAccessReview>::all(client).create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use futures::stream::{FuturesUnordered, StreamExt};
    use kube::client::Body;

    use super::*;

    fn asking(authorization: Option<&str>) -> Question {
        let mut question = http::Request::get("/metrics");
        if let Some(authorization) = authorization {
            question = question.header(AUTHORIZATION, authorization);
        }
        question.body(()).unwrap()
    }

    #[test]
    fn only_a_bearer_token_is_a_token() {
        assert_eq!(token(&asking(Some("Bearer abc"))), Some("abc"));
        assert_eq!(token(&asking(Some("bearer  abc "))), Some("abc"));
        for wrong in [None, Some("Basic abc"), Some("Bearer "), Some("Bearer"), Some("abc")] {
            assert_eq!(token(&asking(wrong)), None, "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn nobody_is_let_in_while_nobody_can_be_asked() {
        let access = Access::default();
        let code = async |authorization| access.refusal(&asking(authorization), None).await.map(|it| it.status());
        assert_eq!(code(None).await, Some(StatusCode::UNAUTHORIZED));
        assert_eq!(code(Some("Bearer abc")).await, Some(StatusCode::INTERNAL_SERVER_ERROR));
    }

    /// An API server that answers with this code, or never. Who asks is counted.
    fn api_server(code: Option<u16>, asked: Arc<AtomicUsize>) -> Client {
        let service = tower::service_fn(move |_: http::Request<Body>| {
            asked.fetch_add(1, Ordering::Relaxed);
            async move {
                let Some(code) = code else { return std::future::pending().await };
                Ok::<_, std::io::Error>(http::Response::builder().status(code).body(Body::empty()).unwrap())
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn who_sends_many_tokens_has_few_of_them_asked_about() {
        let (access, asked) = (Access::default(), Arc::new(AtomicUsize::new(0)));
        let client = api_server(None, asked.clone());
        let refused: FuturesUnordered<_> = (0..100)
            .map(async |number| {
                let question = asking(Some(&format!("Bearer {number}")));
                access.refusal(&question, Some(client.clone())).await.unwrap().status()
            })
            .collect();
        let refused: Vec<StatusCode> = refused.take(100 - MOST_ASKED).collect().await;
        assert!(refused.iter().all(|code| *code == StatusCode::SERVICE_UNAVAILABLE), "{refused:?}");
        assert_eq!(asked.load(Ordering::Relaxed), MOST_ASKED);
    }

    #[tokio::test]
    async fn an_api_server_that_cannot_be_asked_lets_nobody_in_and_is_told_of_once() {
        let access = Access::default();
        assert!(!access.is_away.load(Ordering::Relaxed));
        for _ in 0..2 {
            let answer = access.refusal(&asking(Some("Bearer abc")), Some(api_server(Some(500), Arc::default()))).await;
            assert_eq!(answer.unwrap().status(), StatusCode::INTERNAL_SERVER_ERROR);
            assert!(access.is_away.load(Ordering::Relaxed), "the next one is not told");
        }
    }

    #[test]
    fn an_answer_is_kept_for_its_token_alone() {
        let access = Access::default();
        let key = |token: &str| (token.as_bytes().to_vec(), "get".to_owned(), "/metrics".to_owned());
        access.keep(key("a"), Verdict::Allowed);
        assert_eq!((access.kept(&key("a")), access.kept(&key("b"))), (Some(Verdict::Allowed), None));
        for number in 0..MOST_KEPT * 2 {
            access.keep(key(&number.to_string()), Verdict::Unknown);
        }
        assert!(access.locked().len() <= MOST_KEPT);
    }
}

//! A gate before an API server in trouble: slow, failing, or as it is. It counts the calls that come.
//!
//! ```text
//! operator ── http ──▶ gate ── https, as administrator ──▶ API server
//!                       │ waits first, or answers itself with an error, or resets before or after it passed the call on
//! ```
//! Which call meets with which trouble is decided by its number, in the order of arrival: two runs are alike, and not the same.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response, response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout_at};

use super::chance::mixed;
use super::gate::is_watch;
use super::gate::wire::Connection;

/// Longer than anybody should wait for the beginning of an answer.
const SILENCE: Duration = Duration::from_secs(300);

/// The line of a log that nobody limits.
const LONG_LINE: usize = 5 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    None,
    /// Every call waits so long.
    Slow(Duration),
    /// Of a hundred calls ten are answered with an error, five reset before and five after they were passed on. Watches live for
    /// some seconds only, and of a hundred five are never answered.
    Failing,
    /// As API servers without streamed lists: a watch that asks for one is refused.
    NoStreamedLists,
    /// As a kubelet that knows no limit: every log is one line of several megabytes.
    LongLogs,
}

/// What came, and what became of it.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Other than watches, as `<method> <path>`.
    pub calls: Vec<String>,
    pub watches: usize,
    /// Errors and resets that were made here, those of watches included.
    pub failures: usize,
}

pub struct Troubled {
    pub address: String,
    keeper: Arc<Keeper>,
    task: tokio::task::JoinHandle<()>,
}

struct Keeper {
    client: Client,
    trouble: Trouble,
    number: AtomicU64,
    counts: Mutex<Counts>,
}

enum Fate {
    Pass,
    Error(u16),
    /// As from a gateway that did not wait long enough: it is done, and answered with 504.
    LateAfter,
    ResetBefore,
    ResetAfter,
}

impl Troubled {
    pub async fn start(client: Client, trouble: Trouble) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let keeper = Arc::new(Keeper { client, trouble, number: AtomicU64::new(0), counts: Mutex::default() });
        let shared = keeper.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(shared.clone().serve(stream));
            }
        });
        Troubled { address, keeper, task }
    }

    pub fn counts(&self) -> Counts {
        self.keeper.counts.lock().expect("nobody panics with it").clone()
    }
}

impl Drop for Troubled {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Keeper {
    async fn serve(self: Arc<Self>, stream: TcpStream) {
        let mut connection = Connection::new(stream);
        while let Some(request) = connection.request().await {
            if self.answer(request, &mut connection).await.is_none() {
                return;
            }
        }
    }

    /// None ends the connection.
    async fn answer(&self, request: Request<Body>, connection: &mut Connection) -> Option<()> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let watches = is_watch(&request);
        self.note(&request, watches);
        if let Trouble::Slow(pause) = self.trouble {
            sleep(pause).await;
        }
        let wants_list = request.uri().query().unwrap_or_default().contains("sendInitialEvents=true");
        if self.trouble == Trouble::NoStreamedLists && wants_list {
            let (head, body) = refusal(422, number);
            connection.head(&head, Some(body.len())).await?;
            return connection.body(body.as_bytes()).await;
        }
        if self.trouble == Trouble::LongLogs && request.uri().path().ends_with("/log") {
            let head = Response::builder().header("content-type", "text/plain").body(()).expect("a response");
            let line = vec![b'x'; LONG_LINE];
            connection.head(&head.into_parts().0, Some(line.len())).await?;
            return connection.body(&line).await;
        }
        match self.fate(number) {
            Fate::Pass if watches => self.watch(request, connection, number).await,
            Fate::Pass => {
                let (head, body) = self.forward(request).await?;
                connection.head(&head, Some(body.len())).await?;
                connection.body(&body).await
            }
            Fate::Error(code) => {
                let (head, body) = refusal(code, number);
                connection.head(&head, Some(body.len())).await?;
                connection.body(body.as_bytes()).await
            }
            Fate::LateAfter => {
                if !watches {
                    self.forward(request).await;
                }
                let (head, body) = refusal(504, number);
                connection.head(&head, Some(body.len())).await?;
                connection.body(body.as_bytes()).await
            }
            Fate::ResetBefore => None,
            // As behind a load balancer that lost its server: nobody answers, and nobody says so.
            Fate::ResetAfter if watches => {
                sleep(SILENCE).await;
                None
            }
            Fate::ResetAfter => {
                self.forward(request).await;
                None
            }
        }
    }

    fn note(&self, request: &Request<Body>, watches: bool) {
        let mut counts = self.counts.lock().expect("nobody panics with it");
        match watches {
            true => counts.watches += 1,
            false => counts.calls.push(format!("{} {}", request.method(), request.uri())),
        }
    }

    fn fate(&self, number: u64) -> Fate {
        if self.trouble != Trouble::Failing {
            return Fate::Pass;
        }
        let roll = mixed(number);
        let fate = match roll % 100 {
            0..2 => Fate::LateAfter,
            2..10 => Fate::Error([500, 502, 503, 429][(roll / 100 % 4) as usize]),
            10..15 => Fate::ResetBefore,
            15..20 => Fate::ResetAfter,
            _ => return Fate::Pass,
        };
        self.counts.lock().expect("nobody panics with it").failures += 1;
        fate
    }

    async fn forward(&self, request: Request<Body>) -> Option<(response::Parts, Vec<u8>)> {
        let (head, body) = self.client.send(request).await.ok()?.into_parts();
        Some((head, body.collect().await.ok()?.to_bytes().to_vec()))
    }

    async fn watch(&self, request: Request<Body>, connection: &mut Connection, number: u64) -> Option<()> {
        let life = match self.trouble {
            Trouble::Failing => Duration::from_secs(5 + mixed(number) % 10),
            _ => Duration::from_secs(3600),
        };
        let end = Instant::now() + life;
        let (head, mut body) = self.client.send(request).await.ok()?.into_parts();
        connection.head(&head, None).await?;
        loop {
            match timeout_at(end, body.frame()).await {
                Ok(Some(frame)) => connection.chunk(&frame.ok()?.into_data().ok()?).await?,
                Ok(None) => return connection.last_chunk().await,
                Err(_) => return None,
            }
        }
    }
}

/// As the API server says it, or whatever is before it. Every other one says when to come again.
fn refusal(code: u16, number: u64) -> (response::Parts, String) {
    let mut response = Response::builder().status(code);
    if matches!(code, 429 | 503) && mixed(number).is_multiple_of(2) {
        response = response.header("retry-after", "1");
    }
    let body = match code {
        502 | 504 => format!("<html><body>{code}: the load balancer found nobody</body></html>"),
        _ => format!(
            r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"this API server is in trouble ({code})","reason":"","code":{code}}}"#
        ),
    };
    let kind = if body.starts_with('<') { "text/html" } else { "application/json" };
    (response.header("content-type", kind).body(()).expect("a response").into_parts().0, body)
}

//! A gate before the API server that kills an operator at one of its calls.
//!
//! ```text
//! operator ── http ──▶ gate ── https, as administrator ──▶ API server
//!                       │ the n-th call: not forwarded, or done and not answered
//!                       └──▶ SIGKILL, and nothing passes any more
//! ```
//! The operator's own name goes through as a header. Watches are neither counted nor cut: they ask for nothing and change
//! nothing. Those of one kind can be held back or broken, while all others pass.

pub(super) mod wire;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use http::{Request, response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::{Operator, until};
use wire::Connection;

/// When an operator is killed, seen from the API server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// The call never gets there.
    Before,
    /// It was done, and nobody hears the answer.
    After,
}

pub struct Gate {
    pub address: String,
    keeper: Arc<Keeper>,
}

/// What all connections share.
struct Keeper {
    client: Client,
    log: Mutex<Log>,
    /// True once nothing passes any more.
    is_over: watch::Sender<bool>,
    /// What becomes of the watches of one kind, by its plural name.
    obstacle: watch::Sender<Obstacle>,
}

/// What a watch meets.
#[derive(Clone, Debug, PartialEq)]
pub enum Obstacle {
    Nothing,
    /// Whoever asks waits.
    Wall(String),
    /// Whoever asks is answered with 500.
    Pit(String),
    /// What is told is held back, also by watches that have begun.
    Fog(String),
    /// Whoever asks is cut off without an answer.
    Hole(String),
}

impl Obstacle {
    fn holds(&self, path: &str) -> bool {
        matches!(self, Obstacle::Wall(plural) if is_of(path, plural))
    }

    fn breaks(&self, path: &str) -> bool {
        matches!(self, Obstacle::Pit(plural) if is_of(path, plural))
    }

    fn hides(&self, path: &str) -> bool {
        matches!(self, Obstacle::Fog(plural) if is_of(path, plural))
    }

    fn swallows(&self, path: &str) -> bool {
        matches!(self, Obstacle::Hole(plural) if is_of(path, plural))
    }
}

struct Log {
    /// Since the gate was armed, as `<method> <path>`.
    calls: Vec<String>,
    watches: Vec<String>,
    under_way: usize,
    last: Instant,
    cut: Option<Cut>,
    /// The call has come at which it ends. Whatever follows waits for ever.
    is_closed: bool,
}

#[derive(Clone, Copy)]
struct Cut {
    process: Pid,
    at: Point,
    when: When,
}

#[derive(Clone, Copy)]
enum Point {
    Number(usize),
    /// The first one with this method whose path has this part.
    Call(&'static str, &'static str),
}

impl Point {
    fn is_at(self, calls: &[String]) -> bool {
        match self {
            Point::Number(at) => at == calls.len(),
            Point::Call(method, part) => {
                calls.last().is_some_and(|call| call.starts_with(method) && call.contains(part))
            }
        }
    }
}

/// What becomes of a call.
enum Verdict {
    Pass,
    Last(Cut),
    Never,
}

impl Gate {
    pub async fn start(client: Client) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let log =
            Log { calls: vec![], watches: vec![], under_way: 0, last: Instant::now(), cut: None, is_closed: false };
        let keeper = Arc::new(Keeper {
            client,
            log: Mutex::new(log),
            is_over: watch::Sender::new(false),
            obstacle: watch::Sender::new(Obstacle::Nothing),
        });
        let mut is_over = keeper.is_over.subscribe();
        let shared = keeper.clone();
        tokio::spawn(async move {
            let serve = async {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(shared.clone().serve(stream));
                }
            };
            tokio::select! {
                () = serve => {}
                _ = is_over.wait_for(|over| *over) => {}
            }
        });
        Gate { address, keeper }
    }

    /// From now on calls are counted, and the operator does not survive this one.
    pub fn arm(&self, operator: &Operator, at: usize, when: When) {
        self.cut(operator, Point::Number(at), when);
    }

    /// The operator does not survive the first call with this method whose path has this part.
    pub fn arm_at_call(&self, operator: &Operator, method: &'static str, part: &'static str, when: When) {
        self.cut(operator, Point::Call(method, part), when);
    }

    fn cut(&self, operator: &Operator, at: Point, when: When) {
        let process = Pid::from_raw(operator.id().cast_signed()).expect("a process");
        let mut log = self.keeper.log();
        log.calls.clear();
        log.cut = Some(Cut { process, at, when });
    }

    /// Puts something in the way of watches that begin from now on; those that wait go on with it.
    pub fn place(&self, obstacle: Obstacle) {
        self.keeper.obstacle.send_replace(obstacle);
    }

    pub fn has_killed(&self) -> bool {
        *self.keeper.is_over.borrow()
    }

    /// The calls since it was armed. The last one is where it ended, if it did.
    pub fn calls(&self) -> Vec<String> {
        self.keeper.log().calls.clone()
    }

    /// Whether nothing was asked for a while.
    pub fn is_calm(&self, while_: Duration) -> bool {
        let log = self.keeper.log();
        log.under_way == 0 && log.last.elapsed() >= while_
    }

    /// Waits until the API server has done all that reached it.
    pub async fn empty(&self) {
        until("all calls are done", async || (self.keeper.log().under_way == 0).then_some(())).await;
    }

    /// Waits until somebody watches objects of this plural name.
    pub async fn watches(&self, plural: &str) {
        let is_meant = |path: &String| is_of(path, plural);
        until(&format!("{plural} are watched"), async || self.keeper.log().watches.iter().any(is_meant).then_some(()))
            .await;
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.keeper.is_over.send_replace(true);
    }
}

impl Keeper {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("nobody panics with the log in hand")
    }

    /// One connection, until one of its ends goes.
    async fn serve(self: Arc<Self>, stream: TcpStream) {
        let mut is_over = self.is_over.subscribe();
        let mut connection = Connection::new(stream);
        loop {
            let request = tokio::select! {
                request = connection.request() => request,
                _ = is_over.wait_for(|over| *over) => return,
            };
            let Some(request) = request else { return };
            // Not interrupted: what has reached the API server is finished there, whoever hears of it.
            let answered = match is_watch(&request) {
                true => self.watch(request, &mut connection).await,
                false => self.call(request, &mut connection).await,
            };
            if answered.is_none() {
                return;
            }
        }
    }

    async fn watch(&self, request: Request<Body>, connection: &mut Connection) -> Option<()> {
        let mut is_over = self.is_over.subscribe();
        if self.log().is_closed {
            let _ = is_over.wait_for(|over| *over).await;
            return None;
        }
        let path = request.uri().to_string();
        let obstacle = self.obstacle(&path).await?;
        if obstacle.swallows(&path) {
            return None;
        }
        if obstacle.breaks(&path) {
            let head = http::Response::builder().status(500).body(()).ok()?.into_parts().0;
            connection.head(&head, Some(0)).await?;
            return connection.body(&[]).await;
        }
        let (head, mut body) = self.client.send(request).await.ok()?.into_parts();
        connection.head(&head, None).await?;
        self.log().watches.push(path.clone());
        let mut obstacle = self.obstacle.subscribe();
        loop {
            let frame = async {
                let frame = body.frame().await;
                let _ = obstacle.wait_for(|obstacle| !obstacle.hides(&path)).await;
                frame
            };
            let frame = tokio::select! {
                frame = frame => frame,
                // An operator that went does not end an idle watch.
                _ = is_over.wait_for(|over| *over) => return None,
            };
            let Some(frame) = frame else { return connection.last_chunk().await };
            connection.chunk(&frame.ok()?.into_data().ok()?).await?;
        }
    }

    /// What a watch meets, once nothing holds it any more.
    async fn obstacle(&self, path: &str) -> Option<Obstacle> {
        let mut obstacle = self.obstacle.subscribe();
        let free = obstacle.wait_for(|obstacle| !obstacle.holds(path)).await.ok()?;
        Some(free.clone())
    }

    async fn call(&self, request: Request<Body>, connection: &mut Connection) -> Option<()> {
        match self.judge(format!("{} {}", request.method(), request.uri())) {
            Verdict::Pass => {
                let (head, body) = self.forward(request).await?;
                connection.head(&head, Some(body.len())).await?;
                connection.body(&body).await
            }
            Verdict::Last(cut) => {
                if cut.when == When::After {
                    self.forward(request).await;
                }
                // It may have ended by itself.
                let _ = kill_process(cut.process, Signal::KILL);
                self.is_over.send_replace(true);
                None
            }
            Verdict::Never => {
                let _ = self.is_over.subscribe().wait_for(|over| *over).await;
                None
            }
        }
    }

    fn judge(&self, call: String) -> Verdict {
        let mut log = self.log();
        if log.is_closed {
            return Verdict::Never;
        }
        log.last = Instant::now();
        log.calls.push(call);
        match log.cut.filter(|cut| cut.at.is_at(&log.calls)) {
            Some(cut) => {
                log.is_closed = true;
                Verdict::Last(cut)
            }
            None => Verdict::Pass,
        }
    }

    async fn forward(&self, request: Request<Body>) -> Option<(response::Parts, Vec<u8>)> {
        self.log().under_way += 1;
        let answer = self.whole_answer(request).await;
        let mut log = self.log();
        log.under_way -= 1;
        log.last = Instant::now();
        answer.inspect_err(|error| eprintln!("the gate cannot forward a call: {error}")).ok()
    }

    async fn whole_answer(&self, request: Request<Body>) -> Result<(response::Parts, Vec<u8>), kube::Error> {
        let (head, body) = self.client.send(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok((head, body.to_vec()))
    }
}

fn is_of(path: &str, plural: &str) -> bool {
    path.split('?').next().is_some_and(|path| path.ends_with(&format!("/{plural}")))
}

pub(super) fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

//! The gateway: what helm may see of the cluster while it renders.
//!
//! helm has no credentials. Where a chart asks the cluster, helm gets a kubeconfig whose server is this: an endpoint on the
//! loopback interface, for one render, with a random secret as the first part of every path. (Kubernetes' client sends no
//! token over plain http.) It answers the version, discovery, and reads of objects that the fence shows.
//!
//! It refuses everything else: writes, other paths, and whoever does not know the secret. It is closed when [`Gateway::close`]
//! returns, and when it is dropped.
//!
//! | module | what is in it |
//! |---|---|
//! | [`question`] | what a path asks for |
//! | [`fence`] | which objects are shown |
//! | [`reader`] | what is read of the cluster |
//! | [`seen`] | what happened at the gateway |

pub mod fence;
pub mod question;
pub mod reader;
pub mod seen;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::core::discovery::v2::APIGroupDiscoveryList;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::discovery::Catalog;
use question::{Question, Wanted};
use reader::{ReadError, Reader};
use seen::{Failure, Notebook, Seen};

/// What a gateway answers from.
pub struct Sight {
    pub reader: Reader,
    /// The cluster's kinds, and those that the chart brings.
    pub catalog: Catalog,
}

/// An open gateway.
pub struct Gateway {
    address: SocketAddr,
    secret: String,
    notebook: Arc<Notebook>,
    serving: JoinHandle<()>,
}

type Answer = Response<Full<Bytes>>;

impl Gateway {
    pub async fn open(sight: Sight) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, secret) = (listener.local_addr()?, secret()?);
        let notebook = Arc::new(Notebook::default());
        let door = Arc::new(Door {
            secret: hash(&secret),
            sight,
            notebook: notebook.clone(),
            is_lookup: AtomicBool::default(),
        });
        Ok(Gateway { address, secret, notebook, serving: tokio::spawn(serve(listener, door)) })
    }

    /// The server, as a kubeconfig names it.
    pub fn url(&self) -> String {
        format!("http://{}/{}", self.address, self.secret)
    }

    /// A kubeconfig that knows nothing but this. JSON is YAML.
    pub fn kubeconfig(&self) -> String {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "gateway",
            "clusters": [{"name": "gateway", "cluster": {"server": self.url()}}],
            "users": [{"name": "nobody", "user": {}}],
            "contexts": [{"name": "gateway", "context": {"cluster": "gateway", "user": "nobody"}}],
        });
        kubeconfig.to_string()
    }

    /// Ends it, and tells what happened.
    pub async fn close(mut self) -> Seen {
        self.serving.abort();
        // It was aborted, so it did not end well.
        let _ = (&mut self.serving).await;
        self.notebook.take()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Before the next try to take a connection, where the system had no room for one.
const PAUSE: Duration = Duration::from_millis(20);

/// Connections end with the task that accepted them.
async fn serve(listener: TcpListener, door: Arc<Door>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(converse(stream, door.clone()))),
                Err(error) => {
                    tracing::debug!("the gateway could not take a connection: {error}");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn converse(stream: TcpStream, door: Arc<Door>) {
    let service = service_fn(|request: Request<Incoming>| {
        let door = door.clone();
        async move { Ok::<_, Infallible>(door.answer(&request).await) }
    });
    if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!("a connection to the gateway broke: {error}");
    }
}

/// What is asked comes through here.
struct Door {
    /// Only its hash is compared, so that the time it takes tells nothing.
    secret: Vec<u8>,
    sight: Sight,
    notebook: Arc<Notebook>,
    /// The last question was about the resources of a group: every `lookup` begins so. When helm looks whether a rendered object
    /// exists, it does not, and nobody need be told of what it did not see.
    is_lookup: AtomicBool,
}

impl Door {
    async fn answer<B>(&self, request: &Request<B>) -> Answer {
        let Some(path) = self.inside(request.uri().path()) else {
            return refusal(StatusCode::FORBIDDEN, "this is the gateway of another render");
        };
        if request.method() != Method::GET {
            return refusal(StatusCode::METHOD_NOT_ALLOWED, "the gateway only reads");
        }
        let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        let catalog = &self.sight.catalog;
        match question::read(path, request.uri().query()) {
            Some(Question::Version) => json_answer(&json!(catalog.version)),
            Some(Question::Core) => groups(&catalog.core, accept),
            Some(Question::Groups) => groups(&catalog.groups, accept),
            Some(Question::Resources { group, version }) => self.resources(&group, &version),
            Some(Question::Objects(wanted)) => self.objects(&wanted).await,
            None if question::is_of_api(path) => {
                let is_lookup = self.is_lookup.swap(false, Ordering::Relaxed);
                self.failed(Failure { what: path.to_owned(), is_lookup, error: ReadError::NoQuestion })
            }
            None => refusal(StatusCode::NOT_FOUND, "the gateway does not answer this"),
        }
    }

    /// The path behind the secret.
    fn inside<'a>(&self, path: &'a str) -> Option<&'a str> {
        let (secret, rest) = path.strip_prefix('/')?.split_at_checked(SECRET_LENGTH)?;
        (hash(secret) == self.secret).then_some(rest)
    }

    /// Only a `lookup` asks for these alone.
    fn resources(&self, group: &str, version: &str) -> Answer {
        self.is_lookup.store(true, Ordering::Relaxed);
        self.notebook.note_question();
        let catalog = &self.sight.catalog;
        if catalog.is_silent(group, version) {
            let what = format!("the kinds of {group}/{version}");
            return self.failed(Failure { what, is_lookup: true, error: ReadError::Silent });
        }
        catalog.resource_list(group, version).map_or_else(nothing, |list| json_answer(&list))
    }

    async fn objects(&self, wanted: &Wanted) -> Answer {
        let is_lookup = self.is_lookup.swap(false, Ordering::Relaxed);
        match self.sight.reader.read(wanted).await {
            Ok(shown) => {
                if let Some(refused) = shown.refused.filter(|_| is_lookup) {
                    self.notebook.note_refusal(&refused);
                }
                // helm itself asks for no lists.
                self.notebook.note_sensitive(shown.sensitive);
                if let Some(text) =
                    shown.text.as_ref().filter(|_| wanted.group.is_empty() && wanted.plural == "secrets")
                {
                    self.notebook.note_secret(text);
                }
                shown.text.map_or_else(nothing, |text| body(StatusCode::OK, "application/json", text))
            }
            Err(error) => self.failed(Failure { what: wanted.to_string(), is_lookup, error }),
        }
    }

    /// Never 404, which would be an empty answer.
    fn failed(&self, failure: Failure) -> Answer {
        let answer = refusal(failure.error.code(), &failure.error.to_string());
        self.notebook.note_failure(failure);
        answer
    }
}

/// Discovery in the form of a whole, of which there were two versions with the same content.
fn groups(list: &APIGroupDiscoveryList, accept: &str) -> Answer {
    let version = if accept.contains("v=v2;") { "v2" } else { "v2beta1" };
    let mut value = json!(list);
    value["kind"] = "APIGroupDiscoveryList".into();
    value["apiVersion"] = format!("apidiscovery.k8s.io/{version}").into();
    let form = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    body(StatusCode::OK, &form, value.to_string())
}

fn json_answer(value: &Value) -> Answer {
    body(StatusCode::OK, "application/json", value.to_string())
}

fn nothing() -> Answer {
    refusal(StatusCode::NOT_FOUND, "there is nothing")
}

/// An error as the API server tells it.
fn refusal(code: StatusCode, message: &str) -> Answer {
    let reason = match code {
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::FORBIDDEN => "Forbidden",
        StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
        _ => "",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    body(code, "application/json", status.to_string())
}

fn body(code: StatusCode, content_type: &str, text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = code;
    if let Ok(content_type) = content_type.parse() {
        answer.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    answer
}

/// In hexadecimal.
const SECRET_LENGTH: usize = 64;

fn secret() -> io::Result<String> {
    let mut bytes = [0; SECRET_LENGTH / 2];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn hash(secret: &str) -> Vec<u8> {
    digest(&SHA256, secret.as_bytes()).as_ref().to_vec()
}

//! A place on loopback that charts are fetched from: a chart repository and an OCI registry in one.
//!
//! The registry knows what helm does with one: blobs that are uploaded in one piece or in parts, manifests by tag and by digest, and the
//! list of tags. What is below `private/` is only for whoever has logged in.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::tool;

/// `me:secret`, as a login keeps it.
pub const LOGIN: &str = "bWU6c2VjcmV0";

type Answer = Response<Full<Bytes>>;

/// It ends with the process.
pub struct Shelf {
    /// Host and port.
    pub address: String,
    content: Arc<Mutex<Content>>,
}

#[derive(Default)]
struct Content {
    /// Of the chart repository, by path.
    files: HashMap<String, Vec<u8>>,
    /// By digest.
    blobs: HashMap<String, Vec<u8>>,
    /// By repository and tag or digest: the type and the digest.
    manifests: BTreeMap<(String, String), (String, String)>,
    /// Uploads that have begun, by their place.
    uploads: HashMap<String, Vec<u8>>,
}

impl Shelf {
    /// A thread of its own serves: tests wait for programs without giving way.
    pub fn open() -> Self {
        let content: Arc<Mutex<Content>> = Arc::default();
        let (served, (send, receive)) = (content.clone(), std::sync::mpsc::channel());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                send.send(listener.local_addr().expect("an address").to_string()).expect("somebody waits");
                while let Ok((stream, _)) = listener.accept().await {
                    let content = served.clone();
                    let service = service_fn(move |request| answer(request, content.clone()));
                    tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
                }
            });
        });
        Shelf { address: receive.recv().expect("an address"), content }
    }

    pub fn repository(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Packs charts and offers them as a repository.
    pub fn offer(&self, charts: &[&Path]) {
        let dir = tempfile::tempdir().expect("a directory");
        for chart in charts {
            run("helm4", &["package", chart.to_str().expect("text"), "-d", dir.path().to_str().expect("text")]);
        }
        run("helm4", &["repo", "index", dir.path().to_str().expect("text"), "--url", &self.repository()]);
        for entry in std::fs::read_dir(dir.path()).expect("files").flatten() {
            let name = format!("/{}", entry.file_name().to_str().expect("text"));
            let file = std::fs::read(entry.path()).expect("a file");
            self.content.lock().expect("a lock").files.insert(name, file);
        }
    }

    /// One of the packed charts of the repository.
    pub fn packed(&self, file: &str) -> Vec<u8> {
        self.content.lock().expect("a lock").files[&format!("/{file}")].clone()
    }

    /// Packs a chart and pushes it, as a person does.
    pub fn push(&self, chart: &Path, below: &str) {
        let dir = tempfile::tempdir().expect("a directory");
        run("helm4", &["package", chart.to_str().expect("text"), "-d", dir.path().to_str().expect("text")]);
        let packed = std::fs::read_dir(dir.path()).expect("files").flatten().next().expect("a packed chart").path();
        let to = format!("oci://{}/{below}", self.address);
        let login = dir.path().join("login.json");
        std::fs::write(&login, self.login()).expect("a file");
        let push = ["push", "--plain-http", "--registry-config", login.to_str().expect("text")];
        run("helm4", &[&push[..], &[packed.to_str().expect("text"), &to]].concat());
    }

    /// What `helm registry login` writes.
    pub fn login(&self) -> String {
        format!("{{\"auths\": {{\"{}\": {{\"auth\": \"{LOGIN}\"}}}}}}", self.address)
    }
}

fn run(program: &str, arguments: &[&str]) {
    let home = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(tool(program));
    command.args(arguments).env_clear().env("HOME", home.path()).stdin(Stdio::null());
    let output = command.output().expect("helm runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

async fn answer(request: Request<Incoming>, content: Arc<Mutex<Content>>) -> Result<Answer, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
    let mut content = content.lock().expect("a lock");
    let path = head.uri.path();
    let Some(path) = path.strip_prefix("/v2/") else {
        return Ok(content.files.get(path).map_or_else(|| plain(404), |file| whole(200, file.clone())));
    };
    let is_known = head.headers.get("authorization").is_some_and(|login| login == &format!("Basic {LOGIN}"));
    if path.starts_with("private/") && !is_known {
        let refused = Response::builder().status(401).header("WWW-Authenticate", "Basic realm=\"shelf\"");
        return Ok(refused.body(Full::default()).expect("an answer"));
    }
    let digest = head.uri.query().and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("digest=")));
    let digest = digest.map(|digest| digest.replace("%3A", ":"));
    let kind = head.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    Ok(content.registry(&head.method, path, digest, kind, body))
}

impl Content {
    fn registry(&mut self, method: &Method, path: &str, digest: Option<String>, kind: &str, body: Vec<u8>) -> Answer {
        let parts: Vec<&str> = path.split('/').collect();
        match (method, parts.as_slice()) {
            (_, [""]) => plain(200),
            (&Method::GET, [name @ .., "tags", "list"]) => self.tags(&name.join("/")),
            (&Method::POST, [.., "blobs", "uploads", ""]) => {
                let place = format!("/v2/{path}{}", self.uploads.len());
                self.uploads.insert(place.clone(), vec![]);
                located(202, &place)
            }
            (&Method::PATCH, [.., "blobs", "uploads", _]) => {
                let place = format!("/v2/{path}");
                self.uploads.entry(place.clone()).or_default().extend(body);
                located(202, &place)
            }
            (&Method::PUT, [.., "blobs", "uploads", _]) => {
                let begun = self.uploads.get(&format!("/v2/{path}")).cloned().unwrap_or_default();
                self.blobs.insert(digest.unwrap_or_default(), [begun, body].concat());
                plain(201)
            }
            (&Method::GET | &Method::HEAD, [.., "blobs", digest]) => {
                self.blobs.get(*digest).map_or_else(|| plain(404), |blob| whole(200, blob.clone()))
            }
            (&Method::PUT, [name @ .., "manifests", reference]) => {
                let (name, digest) = (name.join("/"), digest_of(&body));
                for reference in [(*reference).to_owned(), digest.clone()] {
                    self.manifests.insert((name.clone(), reference), (kind.to_owned(), digest.clone()));
                }
                self.blobs.insert(digest.clone(), body);
                let made = Response::builder().status(201).header("Docker-Content-Digest", digest);
                made.body(Full::default()).expect("an answer")
            }
            (&Method::GET | &Method::HEAD, [name @ .., "manifests", reference]) => {
                self.manifest(&name.join("/"), reference)
            }
            _ => plain(404),
        }
    }

    fn tags(&self, repository: &str) -> Answer {
        let tags = self.manifests.keys().filter(|(name, tag)| name == repository && !tag.contains(':'));
        let tags: Vec<&str> = tags.map(|(_, tag)| tag.as_str()).collect();
        whole(200, serde_json::json!({"name": repository, "tags": tags}).to_string().into_bytes())
    }

    fn manifest(&self, repository: &str, reference: &str) -> Answer {
        let Some((kind, digest)) = self.manifests.get(&(repository.to_owned(), reference.to_owned())) else {
            return plain(404);
        };
        let found = Response::builder().header("Content-Type", kind).header("Docker-Content-Digest", digest);
        found.body(Full::from(self.blobs[digest].clone())).expect("an answer")
    }
}

fn digest_of(content: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, content);
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn plain(status: u16) -> Answer {
    whole(status, vec![])
}

fn whole(status: u16, body: Vec<u8>) -> Answer {
    let status = StatusCode::from_u16(status).expect("a status");
    Response::builder().status(status).body(Full::from(body)).expect("an answer")
}

fn located(status: u16, place: &str) -> Answer {
    let answer = Response::builder().status(status).header("Location", place).header("Range", "0-0");
    answer.body(Full::default()).expect("an answer")
}

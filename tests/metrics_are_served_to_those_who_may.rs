//! `/metrics` is served plain or by TLS, to all or to those whom the API server lets.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::harness::asking::{get, get_by_tls};
use crate::harness::prometheus::Scrape;
use crate::harness::proxy::{Line, Proxy};
use crate::harness::{Project, chartwright, tool, until};

const SECURED: [&str; 3] =
    ["--metrics-bind-address=127.0.0.1:0", "--metrics-secure=true", "--metrics-require-rbac=true"];

/// A real token of a real ServiceAccount.
async fn token(project: &Project, account: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(project.client.clone(), &project.namespace);
    let body = serde_json::from_value(json!({"metadata": {"name": account}})).unwrap();
    accounts.create(&PostParams::default(), &body).await.unwrap();
    let request: TokenRequest =
        serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 600}})).unwrap();
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await.unwrap();
    answer.status.unwrap().token
}

/// Gives an account the role of config/, under a name of this test's own.
async fn let_read(project: &Project, account: &str) {
    let file = lab::checkout().join("config/rbac/metrics_reader_role.yaml");
    let mut role: Value = serde_yaml::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let name = format!("{}-metrics-reader", project.namespace);
    role["metadata"]["name"] = json!(name);
    let roles: Api<ClusterRole> = Api::all(project.client.clone());
    roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": project.namespace}],
    });
    let bindings: Api<ClusterRoleBinding> = Api::all(project.client.clone());
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
}

#[tokio::test]
async fn nobody_without_a_token_that_may_reads_metrics() {
    let project = Project::of_objects().await;
    let proxy = Proxy::start().await;
    let operator = project.launch().args(&SECURED).through(&proxy).start();
    let address = operator.address("metrics").await;
    let code = async |token: Option<&str>| get_by_tls(&address, "/metrics", token).await.map(|it| it.code);
    let (stranger, reader, late) =
        (token(&project, "stranger").await, token(&project, "reader").await, token(&project, "late").await);
    let_read(&project, "reader").await;
    // Until the operator is connected, nobody can be asked.
    until("the operator asks the API server", async || (code(Some("nonsense")).await == Some(401)).then_some(())).await;
    assert_eq!(code(None).await, Some(401), "without a token");
    assert_eq!(code(Some(&stranger)).await, Some(403), "without the right");
    until("the role counts", async || (code(Some(&reader)).await == Some(200)).then_some(())).await;
    let scrape = Scrape::read(&get_by_tls(&address, "/metrics", Some(&reader)).await.unwrap().body);
    assert!(scrape.0.contains_key("rest_client_requests_total"));
    assert!(get(&address, "/metrics", Some(&reader)).await.is_none(), "nothing travels in the clear");
    proxy.set(Line::Cut);
    assert_eq!(code(Some(&late)).await, Some(500), "the API server cannot be asked");
    assert_eq!(code(Some(&reader)).await, Some(200), "it was asked a moment ago");
    let log = operator.log();
    for token in [stranger, reader, late] {
        assert!(!log.contains(&token), "a token is in the log");
    }
}

/// A directory as a mounted Secret is one: what it holds is behind a link.
fn mount(dir: &Path, generation: &str, pair: (&str, &str)) {
    let data = dir.join(generation);
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("tls.crt"), pair.0).unwrap();
    std::fs::write(data.join("tls.key"), pair.1).unwrap();
    let _ = std::fs::remove_file(dir.join("..new"));
    std::os::unix::fs::symlink(generation, dir.join("..new")).unwrap();
    std::fs::rename(dir.join("..new"), dir.join("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        let _ = std::os::unix::fs::symlink(Path::new("..data").join(name), dir.join(name));
    }
}

/// A certificate, its bytes, and its key.
fn pair() -> (String, Vec<u8>, String) {
    let (certificate, key) = lab::pki::Ca::new().unwrap().server().unwrap();
    let text: String = certificate.lines().filter(|line| !line.starts_with("-----")).collect();
    let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).unwrap();
    (certificate, bytes, key)
}

#[tokio::test]
async fn a_renewed_certificate_is_served_and_a_broken_one_is_not() {
    let project = Project::of_objects().await;
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (pair(), pair());
    mount(dir.path(), "..1", (&first.0, &first.2));
    let path: &'static str = format!("--metrics-cert-path={}", dir.path().display()).leak();
    let args = ["--metrics-bind-address=127.0.0.1:0", "--metrics-secure", path];
    let operator = project.launch().args(&args).start();
    let address = operator.address("metrics").await;
    let served = async || get_by_tls(&address, "/metrics", None).await.unwrap();
    assert_eq!(served().await.certificate, Some(first.1));
    mount(dir.path(), "..2", (&second.0, &second.2));
    assert_eq!(served().await.certificate, Some(second.1.clone()));
    mount(dir.path(), "..3", (&first.0, &second.2));
    assert_eq!(served().await.certificate, Some(second.1.clone()), "the key is another's");
    // A text is shared for a moment by those who ask at once.
    until("the reads are counted, and the failed one", async || {
        let scrape = Scrape::read(&served().await.body);
        let reads = scrape.value("certwatcher_read_certificate_total", &[]);
        let errors = scrape.value("certwatcher_read_certificate_errors_total", &[]);
        ((reads, errors) == (Some(3.0), Some(1.0))).then_some(())
    })
    .await;
    assert_eq!(served().await.certificate, Some(second.1));
    assert_eq!(operator.log().matches("the old one stays in use").count(), 1, "it is told once");
}

/// The one line that a start with these flags ends with.
fn complaint(args: &[&str]) -> String {
    let mut command: Command = chartwright();
    command.args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0"]).args(args);
    let output = command.env("CHARTWRIGHT_HELM", tool("helm4")).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let lines: Vec<&str> = stderr.lines().filter(|line| line.contains("\"level\":\"error\"")).collect();
    assert_eq!(lines.len(), 1, "{stderr}");
    lines[0].to_owned()
}

#[tokio::test]
async fn flags_that_cannot_be_meant_end_in_one_line_that_names_them() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--metrics-bind-address", "--health-probe-bind-address"] {
        let line = complaint(&[&format!("{flag}={address}")]);
        assert!(line.contains(flag) && line.contains(&address) && line.contains("in use"), "{line}");
    }
    let missing: PathBuf = tempfile::tempdir().unwrap().path().join("none");
    let path = format!("--metrics-cert-path={}", missing.display());
    let line = complaint(&["--metrics-bind-address=127.0.0.1:0", "--metrics-secure", &path]);
    assert!(line.contains("tls.crt") && line.contains("--metrics-cert-path"), "{line}");
}

#[tokio::test]
async fn whoever_sends_half_a_request_or_too_much_is_cut_off() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let project = Project::of_objects().await;
    let operator = project.launch().args(&["--metrics-bind-address=127.0.0.1:0"]).start();
    let address = operator.address("metrics").await;
    let ask = async |request: &str| {
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = vec![];
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "the operator still waits for the rest of {:?}", &request[..20]);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let post = ask("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
    assert!(post.starts_with("HTTP/1.1 405"), "{post}");
    let large = format!("GET /metrics HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    assert!(!ask(&large).await.starts_with("HTTP/1.1 200"));
    assert!(!ask("GET /metrics HTTP/1.1\r\nHost: a\r\n").await.starts_with("HTTP/1.1 200"));
    assert_eq!(get(&address, "/other", None).await.unwrap().code, 404);
    assert_eq!(get(&address, "/metrics", None).await.unwrap().code, 200);
}

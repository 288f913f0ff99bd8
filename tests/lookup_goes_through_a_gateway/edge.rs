//! The gateway itself, asked by somebody who is not helm.

use std::sync::Arc;

use chartwright::calls::Calls;
use chartwright::discovery::Cache;
use chartwright::plan::{Owner, Target};
use chartwright::release::History;
use chartwright::render::gateway::fence::Fence;
use chartwright::render::gateway::reader::Reader;
use chartwright::render::gateway::{Gateway, Sight};
use chartwright::watches::Lookup;
use kube::core::GroupVersionKind;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Project, until};

async fn open(project: &Project, lookup: Lookup, calls: Calls) -> Gateway {
    let kinds = Cache::new(Calls::new(project.client.clone())).await.unwrap().kinds();
    let gvk = GroupVersionKind::gvk(&project.resource.group, "v1", &project.resource.kind);
    let owner = Owner { gvk, namespace: Some(project.namespace.clone()), name: "web".into(), uid: "u".into() };
    let (release, namespace) = ("web", project.namespace.as_str());
    let target = Target {
        release,
        namespace,
        chart: "app",
        owner: &owner,
        allow_empty: false,
        crds: Default::default(),
        may_own: true,
    };
    let fence = Fence::new(lookup, &target, &History::default());
    let catalog = kinds.catalog.clone();
    Gateway::open(Sight { reader: Reader { calls, kinds: Arc::clone(&kinds), fence }, catalog }).await.unwrap()
}

/// The code and the body that a request is answered with; None if nobody answers.
async fn ask(url: &str, method: &str, path: &str) -> Option<(u16, Value)> {
    let (address, secret) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!(
        "{method} /{secret}{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let code = head.split(' ').nth(1)?.parse().ok()?;
    Some((code, serde_json::from_str(body).unwrap_or_default()))
}

async fn code(url: &str, method: &str, path: &str) -> u16 {
    ask(url, method, path).await.unwrap().0
}

#[tokio::test]
async fn it_reads_what_is_shown_and_does_nothing_else() {
    let project = Project::new("App").await;
    let namespace = &project.namespace;
    let config = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}});
    let mut own = config("own");
    own["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
    own["metadata"]["annotations"] =
        json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": namespace});
    project.create(own).await;
    project.create(config("foreign")).await;
    let gateway = open(&project, Lookup::Release, Calls::new(project.client.clone())).await;
    let url = gateway.url();
    let configs = format!("/api/v1/namespaces/{namespace}/configmaps");
    let (found, object) = ask(&url, "GET", &format!("{configs}/own")).await.unwrap();
    assert_eq!((found, &object["metadata"]["name"]), (200, &json!("own")));
    assert_eq!(code(&url, "GET", &format!("{configs}/foreign")).await, 404);
    // As helm asks for a lookup.
    assert_eq!(code(&url, "GET", "/api/v1").await, 200);
    let (_, list) = ask(&url, "GET", &configs).await.unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    assert_eq!(
        (list["kind"].as_str(), list["items"][0]["metadata"]["name"].as_str()),
        (Some("ConfigMapList"), Some("own"))
    );

    for method in ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] {
        assert_eq!(code(&url, method, &format!("{configs}/own")).await, 405, "{method}");
    }
    assert!(project.get("v1", "ConfigMap", "own").await.is_some());
    for path in [
        &format!("{configs}?watch=true"),
        &format!("/api/v1/watch/namespaces/{namespace}/configmaps"),
        &format!("/api/v1/namespaces/{namespace}/pods/a/log"),
        &format!("/api/v1/namespaces/{namespace}/services/a/proxy"),
        "/api/v1/nodes/a/proxy/metrics",
        "/openapi/v3",
        "/metrics",
        "/",
        "",
    ] {
        assert_eq!(code(&url, "GET", path).await, 404, "{path}");
    }
    assert_eq!(code(&url, "GET", "/version").await, 200);
    assert_eq!(code(&url, "GET", "/apis/apps/v1").await, 200);

    let (base, secret) = url.rsplit_once('/').unwrap();
    for wrong in [secret.replace(|c: char| c.is_ascii_digit(), "x"), secret[1..].to_owned(), String::new()] {
        assert_eq!(code(&format!("{base}/{wrong}"), "GET", "/version").await, 403, "{wrong}");
    }

    // Also for a connection that is open already.
    let address = base.strip_prefix("http://").unwrap();
    let mut idle = TcpStream::connect(address).await.unwrap();
    let seen = gateway.close().await;
    let refused: Vec<String> = seen.refused.iter().map(|refused| refused.what.clone()).collect();
    assert_eq!(refused, [format!("all configmaps in {namespace}")]);
    assert!(ask(&url, "GET", "/version").await.is_none());
    assert_eq!(idle.read(&mut [0; 8]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn it_is_closed_when_nobody_wants_the_render_any_more() {
    let project = Project::new("App").await;
    let gateway = open(&project, Lookup::Release, Calls::new(project.client.clone())).await;
    let url = gateway.url();
    assert_eq!(code(&url, "GET", "/version").await, 200);
    drop(gateway);
    until("nobody listens", async || ask(&url, "GET", "/version").await.is_none().then_some(())).await;
}

/// An API server that is ill.
async fn broken_server() -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 500 Ill\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
        }
    });
    Client::try_from(Config::new(url.parse().unwrap())).unwrap()
}

#[tokio::test]
async fn what_the_api_server_cannot_say_is_an_error_and_not_nothing() {
    let project = Project::new("App").await;
    let gateway = open(&project, Lookup::Release, Calls::new(broken_server().await)).await;
    let url = gateway.url();
    for path in ["/api/v1/namespaces/a/secrets/b", "/api/v1/namespaces/a/secrets"] {
        let code = code(&url, "GET", path).await;
        assert!(code >= 500, "{path}: {code}");
    }
    let failure = gateway.close().await.failure.unwrap();
    assert_eq!(failure.what, "secrets \"b\" in the namespace a");
}

#[tokio::test]
async fn shut_it_answers_nothing_and_asks_nobody() {
    let project = Project::new("App").await;
    let gateway = open(&project, Lookup::None, Calls::new(broken_server().await)).await;
    let url = gateway.url();
    assert_eq!(code(&url, "GET", &format!("/api/v1/namespaces/{}", project.namespace)).await, 404);
    assert_eq!(code(&url, "GET", "/api/v1/secrets").await, 404);
    let seen = gateway.close().await;
    assert!(seen.failure.is_none() && seen.refused.is_empty(), "{seen:?}");
}

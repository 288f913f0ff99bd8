//! The gateway itself, asked by somebody who is not helm.

use std::sync::Arc;

use chartwright::applyset;
use chartwright::calls::Calls;
use chartwright::discovery::Cache;
use chartwright::plan::{Owner, Target};
use chartwright::release::History;
use chartwright::render::gateway::fence::Fence;
use chartwright::render::gateway::reader::{Limits, ReadError, Reader};
use chartwright::render::gateway::{Gateway, Sight};
use chartwright::watches::Lookup;
use kube::core::GroupVersionKind;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Project, until};

async fn open(project: &Project, lookup: Lookup, calls: Calls) -> Gateway {
    open_within(project, lookup, calls, Limits::default()).await
}

fn owner(project: &Project) -> Owner {
    let gvk = GroupVersionKind::gvk(&project.resource.group, "v1", &project.resource.kind);
    Owner { gvk, namespace: Some(project.namespace.clone()), name: "web".into(), uid: "u".into() }
}

/// A ConfigMap of the release.
fn of_release(project: &Project, name: &str) -> Value {
    let part_of = applyset::id(&owner(project));
    let marks = json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": project.namespace});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": name, "namespace": project.namespace, "annotations": marks,
        "labels": {"app.kubernetes.io/managed-by": "Helm", applyset::PART_OF: part_of}}})
}

async fn open_within(project: &Project, lookup: Lookup, calls: Calls, limits: Limits) -> Gateway {
    let kinds = Cache::new(Calls::new(project.client.clone())).await.unwrap().kinds();
    let owner = owner(project);
    let (release, namespace) = ("web", project.namespace.as_str());
    let target = Target {
        release,
        namespace,
        chart: "app",
        owner: &owner,
        allow_empty: false,
        crds: Default::default(),
        may_own: true,
        made: Default::default(),
        adopting: Default::default(),
    };
    let fence = Fence::new(lookup, &target, &History::default());
    let mut catalog = kinds.catalog.clone();
    // An API server of its own, which does not answer.
    let away = json!({"metadata": {"name": "away.io"}, "versions": [{"version": "v1", "freshness": "Stale"}]});
    catalog.groups.items.push(serde_json::from_value(away).unwrap());
    let reader = Reader::new(calls, Arc::clone(&kinds), fence).within(limits);
    Gateway::open(Sight { reader, catalog }).await.unwrap()
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
    project.create(of_release(&project, "own")).await;
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
    ] {
        assert_eq!(code(&url, "GET", path).await, 400, "{path}");
    }
    for path in ["/openapi/v3", "/metrics", "/", ""] {
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
    let told = failure.to_string();
    assert!(told.starts_with("helm could not see whether secrets \"b\" in the namespace a exists already: "), "{told}");
}

/// helm makes an empty map of "not found", and the chart draws a password.
#[tokio::test]
async fn a_question_that_cannot_be_answered_is_an_error_and_not_nothing() {
    let project = Project::new("App").await;
    for (path, expected, told) in [
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles/a%20b", 400, "clusterroles/a%20b failed: this is no path"),
        ("/apis/away.io/v1", 503, "the kinds of away.io/v1 failed: the API server cannot reach"),
    ] {
        let gateway = open(&project, Lookup::Cluster, Calls::new(project.client.clone())).await;
        let url = gateway.url();
        // As helm asks for a lookup.
        assert_eq!(code(&url, "GET", "/apis/rbac.authorization.k8s.io/v1").await, 200);
        assert_eq!(code(&url, "GET", path).await, expected, "{path}");
        let seen = gateway.close().await;
        let failure = seen.failure.unwrap().to_string();
        assert!(failure.starts_with("the chart's lookup of ") && failure.contains(told), "{failure}");
        assert!(seen.was_asked);
    }
}

#[tokio::test]
async fn a_render_reads_so_much_and_no_more() {
    let project = Project::new("App").await;
    let configs = format!("/api/v1/namespaces/{}/configmaps", project.namespace);
    for number in 1..=5 {
        project.create(of_release(&project, &format!("config-{number}"))).await;
    }
    let open = async |lookup, limits| open_within(&project, lookup, Calls::new(project.client.clone()), limits).await;
    let limits = Limits { page: 2, ..Limits::default() };
    for lookup in [Lookup::Release, Lookup::Namespace] {
        let gateway = open(lookup, limits).await;
        let (code, list) = ask(&gateway.url(), "GET", &configs).await.unwrap();
        let names = list["items"].as_array().unwrap().iter().filter_map(|it| it["metadata"]["name"].as_str());
        // Every namespace gets one by itself.
        let names: Vec<_> = names.filter(|name| *name != "kube-root-ca.crt").collect();
        assert_eq!((code, names.join(" ").as_str()), (200, "config-1 config-2 config-3 config-4 config-5"));
        assert!(list["metadata"]["continue"].is_null() && list["metadata"]["resourceVersion"].is_string(), "{list}");
        assert!(gateway.close().await.failure.is_none());
    }
    let small = Limits { bytes: 1000, ..limits };
    let few = Limits { reads: 2, ..limits };
    for limits in [small, few] {
        let gateway = open(Lookup::Release, limits).await;
        assert_eq!(code(&gateway.url(), "GET", &configs).await, 400, "{limits:?}");
        let failure = gateway.close().await.failure.unwrap();
        assert!(matches!(failure.error, ReadError::TooMuch(1000) | ReadError::TooOften(2)), "{failure}");
    }
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

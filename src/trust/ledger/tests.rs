use std::collections::BTreeMap;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use super::*;

/// The Secrets of a namespace, as the API server keeps them.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    secrets: BTreeMap<String, Value>,
    version: u64,
    calls: Vec<String>,
    /// Secrets with such data are refused, as where they are too large.
    refused: Option<String>,
}

impl Server {
    /// An operator of its own.
    fn ledger(&self) -> Ledger {
        let state = self.0.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let state = state.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let (code, answer) = locked(&state).answer(&parts.method, parts.uri.path(), &body);
                Ok::<_, std::io::Error>(
                    Response::builder().status(code).body(Body::from(answer.to_string().into_bytes())).unwrap(),
                )
            }
        });
        Ledger::new(Calls::new(Client::new(service, "ops")), "ops")
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut locked(&self.0).calls)
    }
}

impl State {
    fn answer(&mut self, method: &Method, path: &str, body: &Value) -> (u16, Value) {
        let name = path.split("/secrets").nth(1).unwrap().trim_start_matches('/').to_owned();
        self.calls.push(format!("{method} {}", if name.is_empty() { "all" } else { "one" }));
        let failure = |code: u16| {
            let reason = match code {
                404 => "NotFound",
                422 => "Invalid",
                _ => "Conflict",
            };
            (code, json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason}))
        };
        let is_refused = self.refused.as_ref().is_some_and(|part| {
            let names = [body["metadata"]["name"].as_str().unwrap_or_default(), &name];
            names.contains(&part.as_str())
        });
        if is_refused {
            return failure(422);
        }
        let based_on = match *method {
            Method::DELETE => &body["preconditions"]["resourceVersion"],
            _ => &body["metadata"]["resourceVersion"],
        };
        match (method.as_str(), self.secrets.get(&name).cloned()) {
            ("GET", _) if name.is_empty() => {
                (200, json!({"metadata": {}, "items": self.secrets.values().collect::<Vec<_>>()}))
            }
            ("POST", _) => {
                let name = body["metadata"]["name"].as_str().unwrap().to_owned();
                if self.secrets.contains_key(&name) {
                    return failure(409);
                }
                (201, self.store(name, body.clone()))
            }
            (_, None) => failure(404),
            ("GET", Some(secret)) => (200, secret),
            (_, Some(secret)) if *based_on != secret["metadata"]["resourceVersion"] => failure(409),
            ("DELETE", Some(_)) => {
                self.secrets.remove(&name);
                (200, json!({"kind": "Status", "status": "Success"}))
            }
            (_, Some(mut secret)) => {
                secret["data"] = body["data"].clone();
                (200, self.store(name, secret))
            }
        }
    }

    fn store(&mut self, name: String, mut secret: Value) -> Value {
        self.version += 1;
        secret["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.secrets.insert(name, secret.clone());
        secret
    }
}

fn owner(name: &str) -> OwnerMark {
    let (group, kind, namespace) = ("g.io".into(), "App".into(), Some("shop".into()));
    OwnerMark { group, kind, namespace, name: name.into(), uid: format!("uid-{name}") }
}

fn entry(owner: &OwnerMark, revision: u32) -> Entry {
    let (uid, namespace, release) = (owner.uid.clone(), "shop".into(), owner.name.clone());
    Entry { uid, namespace, release, revision, ..Entry::default() }
}

fn outside(count: usize) -> Vec<ObjectId> {
    let id = |number| ObjectId {
        group: String::new(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        namespace: Some("other".into()),
        name: format!("object-{number}"),
    };
    (0..count).map(id).collect()
}

#[tokio::test]
async fn what_is_noted_is_there_after_a_restart_and_gone_when_it_is_removed() {
    let (server, web) = (Server::default(), owner("web"));
    let ledger = server.ledger();
    ledger.put(&web, entry(&web, 1)).await.unwrap();
    ledger.put(&web, entry(&web, 2)).await.unwrap();
    assert_eq!(server.calls(), ["GET all", "POST all", "PATCH one"]);
    let again = server.ledger();
    assert_eq!(again.get(&web).await.unwrap(), Some(entry(&web, 2)));
    assert_eq!(again.owners().await.unwrap(), std::slice::from_ref(&web));
    let other_life = OwnerMark { uid: "another".into(), ..web.clone() };
    assert_eq!(again.get(&other_life).await.unwrap(), None);
    again.remove(&other_life).await.unwrap();
    assert_eq!(again.get(&web).await.unwrap(), Some(entry(&web, 2)), "another life removes nothing");
    again.remove(&web).await.unwrap();
    assert_eq!(server.ledger().get(&web).await.unwrap(), None);
}

#[tokio::test]
async fn a_release_whose_entry_is_refused_stops_no_other() {
    let (server, bad, web) = (Server::default(), owner("bad"), owner("web"));
    locked(&server.0).refused = Some(entry::name(&bad.id()));
    let ledger = server.ledger();
    let (first, second) = tokio::join!(ledger.put(&bad, entry(&bad, 1)), ledger.put(&web, entry(&web, 1)));
    assert!(first.is_err());
    second.unwrap();
    assert_eq!(server.ledger().get(&web).await.unwrap(), Some(entry(&web, 1)));
}

#[tokio::test]
async fn two_operators_see_each_others_entries() {
    let (server, web) = (Server::default(), owner("web"));
    let (one, other) = (server.ledger(), server.ledger());
    assert_eq!(other.look(&web, None).await.unwrap(), None);
    one.put(&web, entry(&web, 3)).await.unwrap();
    assert_eq!(other.look(&web, None).await.unwrap(), Some(entry(&web, 3)));
    server.calls();
    assert_eq!(other.look(&web, Some(3)).await.unwrap(), Some(entry(&web, 3)));
    assert!(server.calls().is_empty(), "what is known is not asked for");
    one.put(&web, entry(&web, 4)).await.unwrap();
    assert_eq!(other.look(&web, Some(4)).await.unwrap(), Some(entry(&web, 4)), "a record is newer than what is known");
}

#[tokio::test]
async fn no_operator_lowers_what_another_noted() {
    let (server, web) = (Server::default(), owner("web"));
    let (one, other) = (server.ledger(), server.ledger());
    one.put(&web, entry(&web, 1)).await.unwrap();
    assert_eq!(other.get(&web).await.unwrap(), Some(entry(&web, 1)));
    one.put(&web, entry(&web, 5)).await.unwrap();
    let refused = other.put(&web, entry(&web, 2)).await.unwrap_err();
    assert!(matches!(*refused, TrustError::Older { noted: 5, revision: 2 }), "{refused}");
    other.put(&web, entry(&web, 6)).await.unwrap();
    let late = server.ledger();
    assert_eq!(late.get(&web).await.unwrap(), Some(entry(&web, 6)));
    one.remove(&web).await.unwrap();
    assert_eq!(one.look(&web, None).await.unwrap(), None, "it is removed whoever wrote it last");
}

#[tokio::test]
async fn an_entry_that_another_operator_removed_is_created_again() {
    let (server, web) = (Server::default(), owner("web"));
    let (one, other) = (server.ledger(), server.ledger());
    one.put(&web, entry(&web, 1)).await.unwrap();
    assert!(other.get(&web).await.unwrap().is_some());
    one.remove(&web).await.unwrap();
    other.put(&web, entry(&web, 2)).await.unwrap();
    assert_eq!(server.ledger().get(&web).await.unwrap(), Some(entry(&web, 2)));
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_concerns_its_release_alone() {
    let (server, bad, web) = (Server::default(), owner("bad"), owner("web"));
    for owner in [&bad, &web] {
        server.ledger().put(owner, entry(owner, 1)).await.unwrap();
    }
    locked(&server.0).secrets.get_mut(&entry::name(&bad.id())).unwrap()["data"]["entry"] = "bm9uZQ==".into();
    let ledger = server.ledger();
    assert_eq!(ledger.get(&web).await.unwrap(), Some(entry(&web, 1)));
    let error = ledger.look(&bad, None).await.unwrap_err().to_string();
    assert!(error.contains("cannot be read") && error.contains("trust open"), "{error}");
}

#[tokio::test]
async fn too_many_objects_outside_are_refused_and_never_forgotten() {
    let (server, web) = (Server::default(), owner("web"));
    let many = Entry { outside: outside(1000), ..entry(&web, 1) };
    server.ledger().put(&web, many.clone()).await.unwrap();
    assert_eq!(server.ledger().get(&web).await.unwrap(), Some(many));
    let error = server.ledger().put(&web, Entry { outside: outside(10_000), ..entry(&web, 2) }).await.unwrap_err();
    assert!(error.to_string().contains("10000 objects outside"), "{error}");
    assert!(check_outside(&outside(10_000)).is_err());
}

#[tokio::test]
async fn each_call_takes_a_slot_and_has_the_time_limit_of_all_calls() {
    let service =
        tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, std::io::Error>>());
    let calls = Calls::new(Client::new(service, "ops"));
    let (ledger, web) = (Ledger::new(calls.clone(), "ops"), owner("web"));
    let noted = ledger.get(&web);
    futures::pin_mut!(noted);
    assert!(futures::poll!(noted).is_pending());
    assert_eq!(calls.load().iter().map(|(_, (taken, _))| taken).sum::<usize>(), 1);
}

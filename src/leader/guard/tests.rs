//! With real connections: what matters is what leaves the process.

use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::Client;
use kube::client::Body;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tower::ServiceBuilder;

use super::*;

/// A server that says OK to everything and tells what came, and a client with a guard. `wait` is how long a request is held up
/// behind the first look of the guard.
async fn connected(guard: &Guard, wait: Duration) -> (Client, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let tell = tell.clone();
            tokio::spawn(async move {
                let mut buffer = vec![0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                    let _ = tell.send(String::from_utf8_lossy(&buffer[..length]).into_owned());
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
                }
            });
        }
    });
    let connector = GuardedConnector::new(HttpConnector::new(), guard.clone());
    let connections: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let to = move |mut request: Request<Body>| {
        let path = request.uri().path_and_query().cloned().unwrap();
        *request.uri_mut() = format!("{server}{path}").parse::<Uri>().unwrap();
        let mut connections = connections.clone();
        async move {
            tokio::time::sleep(wait).await;
            connections.call(request).await.map_err(BoxError::from)
        }
    };
    let service = ServiceBuilder::new().layer(guard.clone()).service(tower::service_fn(to));
    (Client::new(service, "default"), told)
}

fn request(method: Method, path: &str, body: &str) -> Request<Vec<u8>> {
    Request::builder().method(method).uri(path).body(body.as_bytes().to_vec()).unwrap()
}

fn soon() -> Moment {
    Moment::now() + Duration::from_secs(60)
}

#[tokio::test]
async fn writes_go_out_only_while_the_lease_is_held() {
    let guard = Guard::closed();
    let (client, mut told) = connected(&guard, Duration::ZERO).await;
    let write = || client.request_text(request(Method::PATCH, "/api/v1/namespaces/a/configmaps/b", "{}"));
    assert!(is_refusal(&write().await.unwrap_err()));
    guard.open_until(soon());
    write().await.unwrap();
    assert!(told.recv().await.unwrap().starts_with("PATCH"));
    guard.open_until(Moment::now());
    assert!(is_refusal(&write().await.unwrap_err()));
    guard.open_until(soon());
    guard.close();
    assert!(is_refusal(&write().await.unwrap_err()));
    assert!(told.try_recv().is_err(), "nothing else came");
}

#[tokio::test]
async fn what_only_asks_goes_out_always() {
    let guard = Guard::closed();
    let (client, mut told) = connected(&guard, Duration::ZERO).await;
    for (method, path) in [
        (Method::GET, "/api/v1/pods"),
        (Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews"),
        (Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ] {
        client.request_text(request(method, path, "")).await.unwrap();
        assert!(told.recv().await.unwrap().contains(path));
    }
    // Charts may have Leases of their own.
    for path in ["/apis/coordination.k8s.io/v1/namespaces/a/leases/b", "/api/v1/namespaces/a/serviceaccounts/b/token"] {
        assert!(is_refusal(&client.request_text(request(Method::POST, path, "{}")).await.unwrap_err()));
    }
}

#[tokio::test]
async fn a_write_that_was_held_up_for_too_long_does_not_go_out() {
    for is_connected in [false, true] {
        for (method, body) in [(Method::PATCH, "{\"a\": 1}"), (Method::DELETE, ""), (Method::DELETE, "{}")] {
            let guard = Guard::closed();
            let (client, mut told) = connected(&guard, Duration::from_millis(50)).await;
            if is_connected {
                client.request_text(request(Method::GET, "/api/v1/pods", "")).await.unwrap();
                told.recv().await.unwrap();
            }
            guard.open_until(Moment::now() + Duration::from_millis(20));
            let write = request(method.clone(), "/api/v1/namespaces/a/configmaps/b", body);
            let error = client.request_text(write).await.unwrap_err();
            assert!(is_refusal(&error), "{method} {body}: {error:?}");
            assert!(told.try_recv().is_err(), "{method} {body}: something came");
        }
    }
}

#[tokio::test]
async fn who_lost_the_lease_sends_nothing_and_who_never_held_it_may_read() {
    let guard = Guard::closed();
    let (client, mut told) = connected(&guard, Duration::ZERO).await;
    let read = || client.request_text(request(Method::GET, "/api/v1/pods", ""));
    read().await.unwrap();
    told.recv().await.unwrap();
    guard.open_until(soon());
    read().await.unwrap();
    told.recv().await.unwrap();
    guard.close();
    assert!(is_refusal(&read().await.unwrap_err()));
    assert!(told.try_recv().is_err());
}

#[tokio::test]
async fn at_the_end_only_writes_under_way_go_on_and_one_without_an_answer_is_in_doubt() {
    let (guard, lease) = (Guard::closed(), Duration::from_secs(15));
    let (client, mut told) = connected(&guard, Duration::from_millis(50)).await;
    let write = || client.request_text(request(Method::PATCH, "/api/v1/namespaces/a/configmaps/b", "{}"));
    guard.open_until(soon());
    let (written, refused) = tokio::join!(write(), async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        guard.finish(Duration::ZERO).await;
        assert!(!guard.is_settled(lease));
        let refused = write().await.unwrap_err();
        guard.finish(lease).await;
        assert!(guard.is_settled(lease));
        refused
    });
    written.unwrap();
    assert!(is_refusal(&refused));
    assert!(told.recv().await.unwrap().starts_with("PATCH"));
    assert!(told.try_recv().is_err());

    let guard = Guard::closed();
    let (client, _told) = connected(&guard, Duration::from_millis(50)).await;
    guard.open_until(soon());
    let write = client.request_text(request(Method::PATCH, "/api/v1/namespaces/a/configmaps/b", "{}"));
    assert!(tokio::time::timeout(Duration::from_millis(10), write).await.is_err());
    guard.finish(lease).await;
    assert!(!guard.is_settled(lease), "nobody knows whether it was sent");
    assert!(guard.is_settled(Duration::ZERO), "in time it cannot arrive any more");
}

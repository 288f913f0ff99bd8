//! With the feature `otel`, a reconcile and its stages are spans that a collector gets by OTLP over HTTP, also those of the last
//! moment. `make traces-proof` builds for it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Project, config, until};

type Bodies = Arc<Mutex<Vec<Vec<u8>>>>;

/// A collector that keeps what it gets.
async fn collector() -> (String, Bodies) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let bodies = Bodies::default();
    let kept = bodies.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(receive(stream, kept.clone()));
        }
    });
    (address, bodies)
}

/// One request after the other.
async fn receive(mut stream: TcpStream, bodies: Bodies) -> Option<()> {
    let mut bytes = vec![];
    loop {
        let mut more = [0; 64 * 1024];
        let count = stream.read(&mut more).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&more[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        assert!(head.starts_with("post /v1/traces "), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        let length: usize = length.expect("a length");
        if bytes.len() < end + 4 + length {
            continue;
        }
        bodies.lock().unwrap().push(bytes[end + 4..end + 4 + length].to_vec());
        bytes.drain(..end + 4 + length);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.ok()?;
    }
}

/// Texts stand in protobuf as they are, with their length before them.
fn has(bodies: &Bodies, text: &str) -> bool {
    has_bytes(bodies, &[&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat())
}

/// Also inside of a longer text.
fn has_bytes(bodies: &Bodies, wanted: &[u8]) -> bool {
    bodies.lock().unwrap().iter().any(|body| body.windows(wanted.len()).any(|window| window == wanted))
}

#[tokio::test]
async fn each_stage_is_a_span_and_the_last_ones_are_sent_at_the_end() {
    let project = Project::of_objects().await;
    let (address, bodies) = collector().await;
    let address: &'static str = Box::leak(address.into_boxed_str());
    // An image may have no certificates of authorities, and this collector needs none.
    let launch = project.launch().env("SSL_CERT_FILE", "/nonexistent").env("SSL_CERT_DIR", "/nonexistent");
    let mut operator = launch.env("OTEL_EXPORTER_OTLP_ENDPOINT", address).start();
    project.apply("web", json!({"objects": [config("web", "chartreuse"), config("more", "chartreuse")]})).await;
    project.condition("web", "Ready", "True").await;
    project.apply("web", json!({"objects": [config("web", "vermilion")]})).await;
    until("it is upgraded", async || operator.log().contains("Upgraded to revision 2").then_some(())).await;
    project.condition("web", "Ready", "True").await;
    operator.terminate();
    assert_eq!(operator.exit_code(Duration::from_secs(10)).await, Some(0));
    for span in ["reconcile", "values", "render", "preflight", "apply", "prune", "observe", "status"] {
        assert!(has(&bodies, span), "no span {span}");
    }
    for text in ["chartwright", "outcome", "revision", "digest", "course", "deploy", "web", &project.namespace] {
        assert!(has(&bodies, text), "no {text}");
    }
    assert!(has_bytes(&bodies, b"reconcil"), "parts of a text are found");
    for value in ["chartreuse", "vermilion"] {
        assert!(!has_bytes(&bodies, value.as_bytes()), "{value} is in a span");
    }
}

#[tokio::test]
async fn a_collector_that_is_away_is_told_once() {
    let project = Project::of_objects().await;
    // Nobody listens there.
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    let launch = project.launch().env(endpoint.0, endpoint.1).env("OTEL_BSP_SCHEDULE_DELAY", "50");
    let operator = launch.start();
    let count = || operator.log().matches("the collector takes no traces").count();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    until("it is told", async || (count() > 0).then_some(())).await;
    until("it is installed", async || operator.log().contains("Installed revision 1").then_some(())).await;
    for (colour, told) in [("green", "Upgraded to revision 2"), ("red", "Upgraded to revision 3")] {
        project.apply("web", json!({"objects": [config("web", colour)]})).await;
        until("it goes on", async || operator.log().contains(told).then_some(())).await;
    }
    assert_eq!(count(), 1, "{}", operator.log());
}

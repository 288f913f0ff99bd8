//! A connection to the API server that a test can break, while all other tests keep theirs.

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::control_plane;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Line {
    Open,
    /// Connections end, and new ones too, as when the API server is restarted.
    Cut,
    /// Nobody answers, and nobody says so.
    Silent,
}

pub struct Proxy {
    pub address: String,
    line: watch::Sender<Line>,
}

impl Proxy {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (line, state) = watch::channel(Line::Open);
        let server = server();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, server.clone(), state.clone()));
            }
        });
        Proxy { address, line }
    }

    pub fn set(&self, line: Line) {
        self.line.send_replace(line);
    }
}

/// Host and port of the shared API server.
fn server() -> String {
    let text = std::fs::read_to_string(control_plane().kubeconfig()).expect("a kubeconfig");
    let config: serde_json::Value = serde_json::from_str(&text).expect("the lab writes JSON");
    let url = config["clusters"][0]["cluster"]["server"].as_str().expect("a server");
    url.trim_start_matches("https://").to_owned()
}

async fn carry(mut client: TcpStream, server: String, mut state: watch::Receiver<Line>) {
    if *state.borrow_and_update() == Line::Open {
        let Ok(mut server) = TcpStream::connect(server).await else { return };
        tokio::select! {
            _ = copy_bidirectional(&mut client, &mut server) => return,
            _ = state.wait_for(|line| *line != Line::Open) => {}
        }
        // Both ends stay open while nothing is carried.
        let _ = state.wait_for(|line| *line != Line::Silent).await;
    } else {
        let _ = state.wait_for(|line| *line != Line::Silent).await;
    }
}

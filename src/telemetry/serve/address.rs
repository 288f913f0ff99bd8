//! Where to listen, as Go's programs are told: `:8080` is every address, `0` is nowhere.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::{TcpListener, lookup_host};

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {why}; name another address with {flag}, or 0 for none")]
pub struct AddressError {
    address: String,
    why: String,
    flag: &'static str,
}

/// Listens there. None where nobody wants it.
///
/// # Errors
/// The flag is named, since it is what a person can change.
pub async fn listen(address: &str, flag: &'static str) -> Result<Option<TcpListener>, AddressError> {
    if matches!(address, "0" | "") {
        return Ok(None);
    }
    let failed = |why: String| AddressError { address: address.to_owned(), why, flag };
    let mut why = "it names no address".to_owned();
    for candidate in candidates(address).await.map_err(failed)? {
        match TcpListener::bind(candidate).await {
            Ok(listener) => return Ok(Some(listener)),
            // A taken port is taken on the other addresses too, or others would answer there.
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                return Err(failed("the address is in use".to_owned()));
            }
            Err(error) => why = error.to_string(),
        }
    }
    Err(failed(why))
}

/// Those that are meant, the best first. Without a host it is every address, of IPv6 and IPv4, or of IPv4 where there is no other.
async fn candidates(address: &str) -> Result<Vec<SocketAddr>, String> {
    let (host, port) = address.rsplit_once(':').ok_or("write a host and a port, as in :8080")?;
    let port: u16 = port.parse().map_err(|_| format!("{port:?} is no port"))?;
    if host.is_empty() {
        return Ok(vec![(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()]);
    }
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let found = lookup_host((host, port)).await.map_err(|error| error.to_string())?;
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_are_read_as_go_reads_them() {
        for (address, expected) in [
            (":8080", vec!["[::]:8080", "0.0.0.0:8080"]),
            ("127.0.0.1:0", vec!["127.0.0.1:0"]),
            ("[::1]:8443", vec!["[::1]:8443"]),
        ] {
            let found: Vec<_> = candidates(address).await.unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(found, expected);
        }
        for wrong in ["8080", ":http", ":70000"] {
            assert!(candidates(wrong).await.is_err(), "{wrong}");
        }
        assert!(listen("0", "--flag").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_port_in_use_names_the_flag() {
        let taken = listen("127.0.0.1:0", "--flag").await.unwrap().unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let error = listen(&address, "--flag").await.unwrap_err().to_string();
        let expected = format!(
            "cannot listen on {address}: the address is in use; name another address with --flag, or 0 for none"
        );
        assert_eq!(error, expected);
    }
}

//! Text that is held for long and read seldom, in as little memory as possible.

use std::io::{Read, Write};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

/// Compressed bytes, which clones share. Equal texts are packed equally.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed(Arc<[u8]>);

impl Packed {
    pub fn new(bytes: &[u8]) -> Self {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        let packed = encoder.write_all(bytes).and_then(|()| encoder.finish());
        Packed(packed.expect("writing into memory does not fail").into())
    }

    /// How much memory it takes.
    pub fn size(&self) -> usize {
        self.0.len()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![];
        let read = DeflateDecoder::new(&*self.0).read_to_end(&mut bytes);
        read.expect("only what was packed here is unpacked");
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_again_and_takes_less() {
        let text = r#"{"type":"Ready","status":"True"},{"type":"Deployed","status":"True"}"#.repeat(5);
        let packed = Packed::new(text.as_bytes());
        assert_eq!(packed.bytes(), text.as_bytes());
        assert!(packed.0.len() < text.len() / 3, "{}", packed.0.len());
        assert_eq!(Packed::new(b"").bytes(), b"");
    }
}

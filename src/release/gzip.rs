//! What a record packs, as Helm does it. Unpacking is up to [`super::budget`]: a megabyte of gzip can become a gigabyte.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

pub(super) const MAGIC: [u8; 3] = [0x1f, 0x8b, 0x08];

pub fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.expect("writing into memory does not fail")
}

/// No JSON begins so.
pub fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

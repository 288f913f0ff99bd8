//! What a record packs, as Helm does it. A megabyte of gzip can become a gigabyte, so no more than [`UNPACKED_LIMIT`] is
//! unpacked.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

/// The most that a record may be when unpacked. Helm has no limit.
pub const UNPACKED_LIMIT: u64 = 64 * 1024 * 1024;

pub(super) const MAGIC: [u8; 3] = [0x1f, 0x8b, 0x08];

#[derive(Debug, thiserror::Error)]
pub enum GzipError {
    #[error("its data cannot be unpacked ({0})")]
    Broken(std::io::Error),
    #[error("its data is more than {} MiB when unpacked", UNPACKED_LIMIT / 1024 / 1024)]
    Bomb,
}

pub fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.expect("writing into memory does not fail")
}

/// No JSON begins so.
pub fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

pub fn unpack(packed: &[u8]) -> Result<Vec<u8>, GzipError> {
    let mut bytes = Vec::new();
    let limited = &mut MultiGzDecoder::new(packed).take(UNPACKED_LIMIT + 1);
    limited.read_to_end(&mut bytes).map_err(GzipError::Broken)?;
    match bytes.len() as u64 > UNPACKED_LIMIT {
        true => Err(GzipError::Bomb),
        false => Ok(bytes),
    }
}

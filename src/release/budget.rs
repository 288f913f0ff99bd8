//! Limits on what a release record may hold, and on the values of a release.
//!
//! A record is a Secret that tenants can write, and a few kilobytes of gzip can describe gigabytes. So the JSON is counted
//! while it is unpacked, before anything is built of it: bytes, items and nesting. What exceeds a limit is an error for that
//! release alone.

use std::io::{self, BufReader, Read};

use flate2::read::MultiGzDecoder;
use serde::de::DeserializeOwned;

use super::gzip;

/// What a JSON text may hold.
#[derive(Debug, PartialEq, Eq)]
pub struct Limits {
    /// Unpacked.
    pub bytes: u64,
    /// Members of maps and elements of lists, at any depth.
    pub items: usize,
    pub depth: usize,
}

/// Helm's part of a record. A Secret holds a mebibyte, in which 768 KiB of gzip fit, and manifests rarely shrink to less than
/// a twentieth. `serde_json` reads 127 levels.
pub const RECORD: Limits = Limits { bytes: 16 * 1024 * 1024, items: 200_000, depth: 127 };
/// What is read without further ado. What has more is read apart from all else.
pub const QUICK: Limits = Limits { bytes: 256 * 1024, items: 20_000, depth: 127 };
/// Our own part: fifteen items and some 240 bytes for each object.
pub const OWN: Limits = Limits { bytes: 4 * 1024 * 1024, items: 400_000, depth: 32 };

/// A spec, and all values from ConfigMaps and Secrets together. etcd takes 1.5 MiB in one request. A map with a single entry
/// takes 650 bytes of memory, so these items take 33 MiB at most.
pub const VALUES: Limits = Limits { bytes: 4 * 1024 * 1024, items: 100_000, depth: 127 };

/// Objects in a manifest, and in the list of what a revision applied.
pub const OBJECTS: usize = 20_000;
pub const HOOKS: usize = 2_000;
/// The content of Chart.yaml, as JSON text.
pub const CHART_BYTES: usize = 128 * 1024;
/// Names, descriptions and the like, which are held unpacked.
pub const SHORT_TEXT_BYTES: usize = 1024 * 1024;
/// Records of one release.
pub const REVISIONS: usize = 2_000;
/// Our parts of all records of one release together, in what the watch knows.
pub const OWN_OF_ALL_REVISIONS: usize = 24 * 1024 * 1024;
/// What is read of all records of one release: bytes unpacked, and [`ITEM_BYTES`] for each item. It bounds the time that a release takes.
pub const READ_OF_ALL_REVISIONS: usize = 128 * 1024 * 1024;
/// The memory that all records of one release may take together.
pub const HELD_OF_ALL_REVISIONS: usize = 48 * 1024 * 1024;
/// An item takes as much time as so many bytes of text.
const ITEM_BYTES: usize = 32;

/// The limit that a record exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    #[error("it is more than {} MiB when unpacked", .0 / 1024 / 1024)]
    Bytes(u64),
    #[error("its JSON has more than {0} items")]
    Items(usize),
    #[error("its JSON is nested more than {0} levels deep")]
    Depth(usize),
    #[error("it lists more than {OBJECTS} objects")]
    Objects,
    #[error("it has more than {HOOKS} hooks")]
    Hooks,
    #[error("its chart metadata is more than {} KiB", CHART_BYTES / 1024)]
    Chart,
    #[error("its names and descriptions are more than {} KiB together", SHORT_TEXT_BYTES / 1024)]
    ShortText,
}

/// Why a JSON text could not be read.
#[derive(Debug)]
pub enum ReadError {
    Exceeded(Exceeded),
    Broken(io::Error),
    Json(serde_json::Error),
}

/// Reads JSON, packed or not, into a type, without ever holding all of its text.
pub fn read<T: DeserializeOwned>(stored: &[u8], limits: &'static Limits) -> Result<T, ReadError> {
    read_counted(stored, limits).map(|(read, _)| read)
}

/// The same, with how much it was, as [`READ_OF_ALL_REVISIONS`] counts it.
pub fn read_counted<T: DeserializeOwned>(stored: &[u8], limits: &'static Limits) -> Result<(T, usize), ReadError> {
    match gzip::is_packed(stored) {
        true => read_from(MultiGzDecoder::new(stored), limits),
        false => read_from(stored, limits),
    }
}

fn read_from<T: DeserializeOwned>(json: impl Read, limits: &'static Limits) -> Result<(T, usize), ReadError> {
    let mut reader = BufReader::new(Metered::new(json, limits));
    let result = serde_json::from_reader(&mut reader);
    let Meter { bytes, items, .. } = reader.get_ref().meter;
    let counted = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_add(items * ITEM_BYTES);
    result.map(|read| (read, counted)).map_err(|error| match error.is_io() {
        false => ReadError::Json(error),
        true => match io::Error::from(error).downcast::<Exceeded>() {
            Ok(exceeded) => ReadError::Exceeded(exceeded),
            Err(broken) => ReadError::Broken(broken),
        },
    })
}

/// Whether a JSON text that is about to be stored could be read again.
pub fn check(json: &[u8], limits: &'static Limits) -> Result<(), Exceeded> {
    Meter::new(limits).count(json)
}

struct Metered<R> {
    inner: R,
    meter: Meter,
}

impl<R> Metered<R> {
    fn new(inner: R, limits: &'static Limits) -> Self {
        Metered { inner, meter: Meter::new(limits) }
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.meter.count(&buffer[..read]).map_err(io::Error::other)?;
        Ok(read)
    }
}

/// Counts JSON as it passes, in one text or several. It does not check the syntax: a text that is no JSON is refused by whoever
/// parses it.
pub struct Meter {
    limits: &'static Limits,
    bytes: u64,
    items: usize,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

impl Meter {
    pub fn new(limits: &'static Limits) -> Self {
        Meter { limits, bytes: 0, items: 0, depth: 0, is_in_string: false, is_escaped: false }
    }

    /// Counts items that are about to be made.
    pub fn count_items(&mut self, items: usize) -> Result<(), Exceeded> {
        self.items = self.items.saturating_add(items);
        match self.items > self.limits.items {
            true => Err(Exceeded::Items(self.limits.items)),
            false => Ok(()),
        }
    }

    pub fn count(&mut self, json: &[u8]) -> Result<(), Exceeded> {
        self.bytes += json.len() as u64;
        if self.bytes > self.limits.bytes {
            return Err(Exceeded::Bytes(self.limits.bytes));
        }
        for byte in json {
            match (self.is_in_string, byte) {
                (true, _) if self.is_escaped => self.is_escaped = false,
                (true, b'\\') => self.is_escaped = true,
                (true, b'"') => self.is_in_string = false,
                (true, _) => {}
                (false, b'"') => self.is_in_string = true,
                (false, b'[' | b'{') => {
                    self.depth += 1;
                    self.items += 1;
                }
                (false, b']' | b'}') => self.depth = self.depth.saturating_sub(1),
                (false, b',') => self.items += 1,
                _ => {}
            }
            if self.depth > self.limits.depth {
                return Err(Exceeded::Depth(self.limits.depth));
            }
        }
        self.count_items(0)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;

    use super::*;

    static SMALL: Limits = Limits { bytes: 100, items: 5, depth: 3 };

    fn exceeded(json: &str) -> Option<Exceeded> {
        let results =
            [json.as_bytes().to_vec(), gzip::pack(json.as_bytes())].map(|stored| read::<IgnoredAny>(&stored, &SMALL));
        let of = |result: &Result<IgnoredAny, ReadError>| match result {
            Ok(_) => None,
            Err(ReadError::Exceeded(exceeded)) => Some(*exceeded),
            Err(other) => panic!("{json}: {other:?}"),
        };
        assert_eq!(of(&results[0]), of(&results[1]), "{json}");
        assert_eq!(of(&results[0]), check(json.as_bytes(), &SMALL).err(), "{json}");
        of(&results[0])
    }

    #[test]
    fn bytes_items_and_depth_are_limited_packed_or_not() {
        assert_eq!(exceeded(r#"{"a":[1,2],"b":{}}"#), None);
        assert_eq!(exceeded(&" ".repeat(101)), Some(Exceeded::Bytes(100)));
        assert_eq!(exceeded("[1,2,3,4,5]"), None);
        assert_eq!(exceeded("[1,2,3,4,5,6]"), Some(Exceeded::Items(5)));
        assert_eq!(exceeded("[[[]]]"), None);
        assert_eq!(exceeded("[[[[]]]]"), Some(Exceeded::Depth(3)));
        assert_eq!(exceeded("[[],[],[]]"), Some(Exceeded::Items(5)));
    }

    #[test]
    fn what_is_read_is_counted() {
        for json in [r#"{"a": [1, 2]}"#.to_owned(), format!("[{}1]", "1,".repeat(50_000))] {
            let items = json.matches(['[', '{', ',']).count();
            for stored in [json.as_bytes().to_vec(), gzip::pack(json.as_bytes())] {
                let (_, counted) = read_counted::<IgnoredAny>(&stored, &RECORD).unwrap();
                assert_eq!(counted, json.len() + ITEM_BYTES * items);
            }
        }
    }

    #[test]
    fn what_is_inside_a_text_counts_for_nothing() {
        assert_eq!(exceeded(r#"["[[[[,,,,,,\"[[[[,,,,,,\\"]"#), None);
        assert_eq!(exceeded(r#"["\\",1,2,3,4,5]"#), Some(Exceeded::Items(5)));
    }

    #[test]
    fn what_is_broken_exceeds_nothing() {
        assert!(matches!(read::<IgnoredAny>(&gzip::pack(b"{}")[..10], &SMALL), Err(ReadError::Broken(_))));
        for text in ["", "{", "]", "{} {}"] {
            assert!(matches!(read::<IgnoredAny>(text.as_bytes(), &SMALL), Err(ReadError::Json(_))), "{text}");
        }
    }
}

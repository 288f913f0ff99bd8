use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

type Builder = tar::Builder<GzEncoder<Vec<u8>>>;

const FILE: EntryType = EntryType::Regular;
const SCHEMA: &str = "sub/values.schema.json";

fn header(name: &str, kind: EntryType, size: usize) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    // Not `set_path`, which writes no path that is refused.
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_size(size as u64);
    header.set_mode(0o644);
    header
}

fn append(builder: &mut Builder, mut header: Header, content: &[u8]) {
    header.set_cksum();
    builder.append(&header, content).unwrap();
}

fn add(builder: &mut Builder, name: &str, kind: EntryType, content: &[u8]) {
    append(builder, header(name, kind, content.len()), content);
}

/// The paths of an archive, or why it is refused.
fn paths(write: impl FnOnce(&mut Builder)) -> Result<Vec<String>, String> {
    let mut builder = tar::Builder::new(GzEncoder::new(vec![], Compression::fast()));
    write(&mut builder);
    let packed = builder.into_inner().unwrap().finish().unwrap();
    let mut paths = vec![];
    let read = each_file(packed.as_slice(), |path, _, entry| {
        // A file is read, or too much is left before the next one.
        let _ = std::io::copy(entry, &mut std::io::sink());
        paths.push(path.to_string_lossy().into_owned());
        Ok::<(), ()>(())
    });
    match read {
        Ok(()) => Ok(paths),
        Err(Unpacking::Archive(reason)) => Err(reason),
        Err(Unpacking::Stopped(())) => unreachable!(),
    }
}

/// Why an archive with this is refused.
fn refused(write: impl FnOnce(&mut Builder)) -> String {
    paths(write).unwrap_err()
}

fn with_pax(records: &[(&str, &str)]) -> Result<Vec<String>, String> {
    paths(|builder| {
        builder.append_pax_extensions(records.iter().map(|(key, value)| (*key, value.as_bytes()))).unwrap();
        add(builder, "sub/a", FILE, b"{}");
    })
}

#[test]
fn what_helm_and_tar_pack_is_read() {
    let long = format!("sub/{}", "d/".repeat(60));
    let read = paths(|builder| {
        add(builder, "pax_global_header", EntryType::XGlobalHeader, b"13 comment=a\n");
        add(builder, "sub/", EntryType::Directory, b"");
        builder.append_pax_extensions([("path", format!("{long}a").as_bytes()), ("mtime", b"1.5")]).unwrap();
        add(builder, "sub/a", FILE, b"x");
        let mut gnu = Header::new_gnu();
        gnu.set_size(0);
        builder.append_data(&mut gnu, format!("{long}b"), std::io::empty()).unwrap();
        let mut split = header("c", FILE, 0);
        split.as_ustar_mut().unwrap().prefix[..5].copy_from_slice(b"sub/d");
        append(builder, split, b"");
    });
    assert_eq!(read.unwrap(), [format!("{long}a"), format!("{long}b"), "sub/d/c".to_owned()]);
}

#[test]
fn a_path_that_helm_splits_elsewhere_is_refused() {
    let told = refused(|builder| add(builder, "sub\\values.schema.json", FILE, b"{}"));
    assert_eq!(told, "helm may read `sub\\values.schema.json` in another way: its path has a `\\`");
}

#[test]
fn a_path_that_helm_cuts_is_refused() {
    let long_name = |name: &[u8]| {
        refused(|builder| {
            add(builder, "././@LongLink", EntryType::GNULongName, name);
            add(builder, SCHEMA, FILE, b"{}");
        })
    };
    assert!(long_name(b"sub/values.schema.json\0.txt\0").contains("has a NUL"));
    assert!(long_name(b"\0").contains("is empty"));
    assert!(with_pax(&[("path", "")]).unwrap_err().contains("is empty"));
}

#[test]
fn an_archive_is_read_to_its_end_or_refused() {
    let told = refused(|builder| {
        (0..=MOST_FILES).for_each(|_| add(builder, "sub/d/", EntryType::Directory, b""));
        add(builder, SCHEMA, FILE, b"{}");
    });
    assert!(told.contains("more than 10000 files and directories"), "{told}");
    // Ends where a header would begin.
    let block = vec![0; usize::try_from(MOST_FILE_BYTES).unwrap() - 512];
    let most = usize::try_from((MOST_BYTES + HEADER_BYTES) / MOST_FILE_BYTES).unwrap();
    let rest = vec![0; usize::try_from((MOST_BYTES + HEADER_BYTES) % MOST_FILE_BYTES).unwrap() - 512];
    let told = refused(|builder| {
        (0..most).for_each(|n| add(builder, &format!("sub/{n}"), FILE, &block));
        add(builder, "sub/rest", FILE, &rest);
        add(builder, SCHEMA, FILE, b"{}");
    });
    assert_eq!(told, "it is too large");
}

#[test]
fn a_pax_header_that_says_two_things_is_refused() {
    assert_eq!(with_pax(&[("path", "sub/b")]).unwrap(), ["sub/b"]);
    assert!(with_pax(&[("path", "sub/b"), ("path", SCHEMA)]).unwrap_err().contains("says something twice"));
    assert!(with_pax(&[("size", "2"), ("size", "0")]).unwrap_err().contains("says something twice"));
    assert!(with_pax(&[("size", "-0")]).unwrap_err().contains("is not a number"));
    let sparse = [("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.name", SCHEMA)];
    assert!(with_pax(&sparse).unwrap_err().contains("is a sparse file"));
    // To one reader these are two records, to the other one.
    assert!(with_pax(&[("comment", "a\n14 path=sub/b")]).unwrap_err().contains("cannot be read"));
}

#[test]
fn content_that_helm_takes_for_headers_is_refused() {
    let mut hidden = header(SCHEMA, FILE, 0);
    hidden.set_cksum();
    let told = refused(|builder| add(builder, "sub/d", EntryType::Directory, hidden.as_bytes()));
    assert!(told.contains("is a directory with content"), "{told}");
    let told = refused(|builder| add(builder, "sub/d/", EntryType::new(0), hidden.as_bytes()));
    assert!(told.contains("ends with a `/`"), "{told}");
}

#[test]
fn a_header_with_a_path_that_not_all_see_is_refused() {
    let with_prefix = |mut header: Header, change: fn(&mut [u8; 512])| {
        header.as_mut_bytes()[345..355].copy_from_slice(b"sub/charts");
        change(header.as_mut_bytes());
        paths(|builder| append(builder, header, b""))
    };
    let posix = || header("sub.tgz", FILE, 0);
    assert_eq!(with_prefix(posix(), |_| {}).unwrap(), ["sub/charts/sub.tgz"]);
    let odd_version = with_prefix(posix(), |bytes| bytes[263..265].copy_from_slice(b"01"));
    let star = with_prefix(posix(), |bytes| bytes[508..].copy_from_slice(b"tar\0"));
    let mut gnu = Header::new_gnu();
    gnu.set_path("sub.tgz").unwrap();
    gnu.set_size(0);
    for refused in [odd_version, star, with_prefix(gnu, |_| {})] {
        assert!(refused.unwrap_err().contains("neither of POSIX nor of GNU"));
    }
}

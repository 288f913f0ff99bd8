use std::io::Write;
use std::os::unix::fs::symlink;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::EntryType;

use super::*;

fn write(dir: &Path, path: &str, text: &str) {
    let path = dir.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

const CHART_FILE: &str = "apiVersion: v2\nname: app\nversion: 0.1.0\nappVersion: 1.16\n";

fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "Chart.yaml", CHART_FILE);
    write(dir.path(), "templates/a.yaml", "kind: A\n");
    dir
}

/// A packed chart with these entries: name, type, content or link.
fn packed(entries: &[(&str, EntryType, &str)]) -> tempfile::NamedTempFile {
    let mut builder = tar::Builder::new(GzEncoder::new(vec![], Compression::fast()));
    for (name, kind, content) in entries {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(*kind);
        // Not `set_path`, which refuses the paths that we want to see refused by the reader.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        if kind.is_file() {
            header.set_size(content.len() as u64);
        } else {
            header.set_link_name_literal(content).unwrap();
            header.set_size(0);
        }
        header.set_cksum();
        builder.append(&header, if kind.is_file() { content.as_bytes() } else { b"" }).unwrap();
    }
    let mut file = tempfile::NamedTempFile::with_suffix(".tgz").unwrap();
    file.write_all(&builder.into_inner().unwrap().finish().unwrap()).unwrap();
    file
}

const FILE: EntryType = EntryType::Regular;

fn refused(entries: &[(&str, EntryType, &str)]) -> String {
    let file = packed(entries);
    Chart::load(file.path()).unwrap_err().to_string()
}

#[test]
fn a_directory_and_its_archive_are_the_same_chart() {
    let dir = directory();
    let from_dir = Chart::load(dir.path()).unwrap();
    let archive = packed(&[("app/templates/a.yaml", FILE, "kind: A\n"), ("./app/Chart.yaml", FILE, CHART_FILE)]);
    let from_archive = Chart::load(archive.path()).unwrap();
    assert_eq!(from_dir.digest, from_archive.digest);
    assert_eq!(from_dir.digest.len(), 64);
    assert_eq!((from_archive.name.as_str(), from_archive.version.as_str()), ("app", "0.1.0"));
    assert_eq!(from_archive.metadata["appVersion"], "1.16");
    assert_eq!(std::fs::read_to_string(from_archive.dir.join("templates/a.yaml")).unwrap(), "kind: A\n");
}

#[test]
fn a_digest_depends_on_names_and_contents_only() {
    let digest = |path: &str, text: &str| {
        let dir = directory();
        write(dir.path(), path, text);
        Chart::load(dir.path()).unwrap().digest
    };
    assert_eq!(digest("a", "b"), digest("a", "b"));
    assert_ne!(digest("a", "b"), digest("a", "c"));
    assert_ne!(digest("a", "b"), digest("ab", ""));
}

#[test]
fn the_copy_is_private_and_goes_with_the_last_chart() {
    let dir = directory();
    let chart = Chart::load(dir.path()).unwrap();
    let copy = chart.dir.clone();
    write(dir.path(), "templates/a.yaml", "kind: B\n");
    assert_eq!(std::fs::read_to_string(copy.join("templates/a.yaml")).unwrap(), "kind: A\n");
    let clone = chart.clone();
    drop(chart);
    assert!(copy.exists());
    drop(clone);
    assert!(!copy.exists());
}

#[test]
fn notes_add_a_template_to_the_copy_and_nothing_to_the_digest() {
    let dir = directory();
    write(dir.path(), "templates/NOTES.txt", "Hi\n");
    let chart = Chart::load(dir.path()).unwrap();
    assert!(chart.dir.join("templates/chartwright-notes.yaml").exists());
    assert!(!dir.path().join("templates/chartwright-notes.yaml").exists());
    assert_eq!(chart.digest, Chart::load(&chart.origin).unwrap().digest);
    let without = directory();
    assert!(!Chart::load(without.path()).unwrap().dir.join("templates/chartwright-notes.yaml").exists());
}

#[test]
fn links_are_followed_but_not_in_circles() {
    let (dir, shared) = (directory(), tempfile::tempdir().unwrap());
    write(shared.path(), "common/_h.tpl", "shared");
    symlink(shared.path().join("common"), dir.path().join("templates/common")).unwrap();
    let chart = Chart::load(dir.path()).unwrap();
    assert_eq!(std::fs::read_to_string(chart.dir.join("templates/common/_h.tpl")).unwrap(), "shared");
    symlink(dir.path(), dir.path().join("templates/self")).unwrap();
    assert!(matches!(Chart::load(dir.path()), Err(ChartError::Cycle { .. })));
}

#[test]
fn a_mounted_config_map_has_each_file_once() {
    let plain = tempfile::tempdir().unwrap();
    write(plain.path(), "Chart.yaml", CHART_FILE);
    let mount = tempfile::tempdir().unwrap();
    write(mount.path(), "..2026_01/Chart.yaml", CHART_FILE);
    symlink("..2026_01", mount.path().join("..data")).unwrap();
    symlink("..data/Chart.yaml", mount.path().join("Chart.yaml")).unwrap();
    let before = Chart::load(mount.path()).unwrap();
    assert_eq!(before.digest, Chart::load(plain.path()).unwrap().digest);
    write(mount.path(), "..2026_02/Chart.yaml", CHART_FILE);
    std::fs::remove_file(mount.path().join("..data")).unwrap();
    symlink("..2026_02", mount.path().join("..data")).unwrap();
    assert_ne!(Fingerprint::of(mount.path()), before.fingerprint);
    assert_eq!(Chart::load(mount.path()).unwrap().digest, before.digest);
}

#[test]
fn what_is_no_chart_is_refused_with_the_reason() {
    let with = |text: &str| {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "Chart.yaml", text);
        Chart::load(dir.path()).unwrap_err().to_string()
    };
    assert!(with("name: a\n").ends_with("Chart.yaml has no `version`"));
    assert!(with("version: 1.0.0\n").ends_with("Chart.yaml has no `name`"));
    assert!(with("- a\n").contains("it is not a map"));
    assert!(with("name: a\nversion: 1.0.0\ntype: library\n").contains("is a library chart"));
    let empty = tempfile::tempdir().unwrap();
    assert!(Chart::load(empty.path()).unwrap_err().to_string().contains("it has no Chart.yaml"));
    assert!(Chart::load(&empty.path().join("x")).unwrap_err().to_string().contains("does not exist"));
}

#[test]
fn an_archive_that_reaches_out_is_refused() {
    let good = ("app/Chart.yaml", FILE, CHART_FILE);
    assert!(refused(&[good, ("/etc/passwd", FILE, "x")]).contains("leads out of the chart's directory"));
    assert!(refused(&[good, ("app/../../x", FILE, "x")]).contains("leads out of the chart's directory"));
    assert!(refused(&[good, ("app/l", EntryType::Symlink, "/etc")]).contains("`app/l` is a link or a device"));
    assert!(refused(&[good, ("app/l", EntryType::Link, "app/Chart.yaml")]).contains("is a link or a device"));
    assert!(refused(&[good, ("app/l", EntryType::Char, "")]).contains("is a link or a device"));
    assert!(refused(&[good, ("other/a", FILE, "x")]).contains("two directories, `app` and `other`"));
    assert!(refused(&[good, ("a", FILE, "x")]).contains("`a` is outside of the chart's directory"));
    assert!(refused(&[("app/sub/Chart.yaml", FILE, CHART_FILE)]).contains("has no Chart.yaml"));
}

#[test]
fn an_archive_that_is_none_is_refused() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"plain text").unwrap();
    assert!(Chart::load(file.path()).unwrap_err().to_string().contains("is not a packed chart"));
}

#[test]
fn an_archive_that_explodes_is_refused() {
    let archive = packed(&[("app/Chart.yaml", FILE, CHART_FILE), ("app/zeros", FILE, &"0".repeat(1000))]);
    let size = CHART_FILE.len() as u64 + 1000;
    let within = |files, bytes| Chart::load_within(archive.path(), Most { files, bytes });
    assert!(within(2, size).is_ok());
    assert!(matches!(within(2, size - 1), Err(ChartError::TooLarge(_))));
    assert!(matches!(within(1, size), Err(ChartError::TooManyFiles(_))));
}

#[test]
fn lookup_is_found_also_in_a_packed_subchart() {
    let dir = directory();
    assert!(!Chart::load(dir.path()).unwrap().asks.lookup);
    let sub = packed(&[("sub/templates/a.yaml", FILE, "{{ lookup \"v1\" \"Secret\" \"a\" \"b\" }}")]);
    std::fs::create_dir(dir.path().join("charts")).unwrap();
    std::fs::copy(sub.path(), dir.path().join("charts/sub-1.0.0.tgz")).unwrap();
    assert!(Chart::load(dir.path()).unwrap().asks.lookup);
}

#[test]
fn what_helm_ignores_is_not_part_of_the_chart() {
    let dir = directory();
    write(dir.path(), ".helmignore", "*.swp\n.git/\n");
    let before = Chart::load(dir.path()).unwrap();
    write(dir.path(), "templates/.a.yaml.swp", "x");
    write(dir.path(), ".git/HEAD", "x");
    assert_eq!(Fingerprint::of(dir.path()), before.fingerprint);
    let after = Chart::load(dir.path()).unwrap();
    assert_eq!(after.digest, before.digest);
    assert!(!after.dir.join(".git").exists());
}

#[test]
fn a_link_leads_nowhere_but_into_the_project() {
    let project = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    write(elsewhere.path(), "token", "the operator's own");
    write(project.path(), "watches.yaml", "");
    write(project.path(), "charts/app/Chart.yaml", CHART_FILE);
    write(project.path(), "shared/_h.tpl", "shared");
    let chart = project.path().join("charts/app");
    symlink("../../shared", chart.join("shared")).unwrap();
    assert!(Chart::load(&chart).is_ok());
    for to in [elsewhere.path().join("token"), elsewhere.path().to_owned(), "/proc/self/environ".into()] {
        symlink(&to, chart.join("out")).unwrap();
        assert!(matches!(Chart::load(&chart), Err(ChartError::LeadsOut { .. })), "{}", to.display());
        std::fs::remove_file(chart.join("out")).unwrap();
    }
    // By a detour.
    symlink(elsewhere.path(), project.path().join("shared/out")).unwrap();
    assert!(matches!(Chart::load(&chart), Err(ChartError::LeadsOut { .. })));
}

#[test]
fn an_address_is_no_chart() {
    for address in ["oci://registry.example.com/charts/app", "https://example.com/app-1.0.0.tgz"] {
        let told = Chart::load(&Path::new("/project").join(address)).unwrap_err().to_string();
        assert!(told.contains("charts are read from disk only"), "{told}");
    }
}

/// A packed chart with headers that a library would not write.
fn packed_by(write: impl FnOnce(&mut tar::Builder<GzEncoder<Vec<u8>>>)) -> tempfile::NamedTempFile {
    let mut builder = tar::Builder::new(GzEncoder::new(vec![], Compression::fast()));
    append(&mut builder, "app/Chart.yaml", FILE, CHART_FILE.as_bytes());
    write(&mut builder);
    let mut file = tempfile::NamedTempFile::with_suffix(".tgz").unwrap();
    file.write_all(&builder.into_inner().unwrap().finish().unwrap()).unwrap();
    file
}

fn append(builder: &mut tar::Builder<impl Write>, name: &str, kind: EntryType, content: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    builder.append(&header, content).unwrap();
}

fn pax(key: &str, value: &str) -> Vec<u8> {
    let rest = format!(" {key}={value}\n");
    let digits = (rest.len() + 1).to_string().len();
    let length = rest.len() + (rest.len() + digits).to_string().len();
    format!("{length}{rest}").into_bytes()
}

#[test]
fn headers_that_say_another_path_are_believed_and_refused() {
    let long_name = packed_by(|builder| {
        append(builder, "././@LongLink", EntryType::GNULongName, b"app/../../out\0");
        append(builder, "app/a", FILE, b"x");
    });
    let of_pax = packed_by(|builder| {
        append(builder, "app/a", EntryType::XHeader, &pax("path", "/etc/cron.d/out"));
        append(builder, "app/a", FILE, b"x");
    });
    for archive in [long_name, of_pax] {
        let told = Chart::load(archive.path()).unwrap_err().to_string();
        assert!(told.contains("leads out of the chart's directory"), "{told}");
    }
    let link = packed_by(|builder| {
        append(builder, "././@LongLink", EntryType::GNULongLink, b"/etc/passwd\0");
        append(builder, "app/a", EntryType::Symlink, b"");
    });
    assert!(Chart::load(link.path()).unwrap_err().to_string().contains("is a link or a device"));
    let sparse = packed_by(|builder| append(builder, "app/a", EntryType::GNUSparse, b""));
    assert!(Chart::load(sparse.path()).is_err());
}

#[test]
fn sizes_that_are_not_true_and_paths_without_end_are_refused() {
    let huge = packed_by(|builder| {
        append(builder, "app/a", EntryType::XHeader, &pax("size", "9000000000000"));
        append(builder, "app/a", FILE, b"x");
    });
    assert!(Chart::load(huge.path()).is_err());
    let deep = packed_by(|builder| {
        let name = format!("app/{}x\0", "d/".repeat(MOST_STEPS));
        append(builder, "././@LongLink", EntryType::GNULongName, name.as_bytes());
        append(builder, "app/a", FILE, b"x");
    });
    assert!(matches!(Chart::load(deep.path()), Err(ChartError::TooDeep { .. })));
    let zeros = packed_by(|builder| append(builder, "app/zeros", FILE, &vec![0; 8 * 1024 * 1024]));
    assert!(std::fs::metadata(zeros.path()).unwrap().len() < 100_000);
    let most = Most { files: 10, bytes: 1024 * 1024 };
    assert!(matches!(Chart::load_within(zeros.path(), most), Err(ChartError::TooLarge(_))));
}

#[test]
fn paths_that_no_disk_takes_are_the_charts_fault() {
    let twice = packed(&[("app/a", FILE, ""), ("app/a/b", FILE, ""), ("app/Chart.yaml", FILE, CHART_FILE)]);
    let deeper = packed(&[("app/a", FILE, ""), ("app/a/b/c", FILE, ""), ("app/Chart.yaml", FILE, CHART_FILE)]);
    let turned = packed(&[("app/a/b", FILE, ""), ("app/a", FILE, ""), ("app/Chart.yaml", FILE, CHART_FILE)]);
    let long = packed_by(|builder| {
        append(builder, "app/a", EntryType::XHeader, &pax("path", &format!("app/{}", "n".repeat(256))));
        append(builder, "app/a", FILE, b"x");
    });
    for archive in [twice, deeper, turned, long] {
        let told = Chart::load(archive.path()).unwrap_err();
        assert!(matches!(told, ChartError::Path { .. }), "{told}");
    }
    let nul = packed_by(|builder| {
        append(builder, "app/a", EntryType::XHeader, &pax("path", "app/a\0b"));
        append(builder, "app/a", FILE, b"x");
    });
    assert!(matches!(Chart::load(nul.path()), Err(ChartError::Archive { .. })));
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let large = vec![0; usize::try_from(MOST_FILE_BYTES).unwrap() + 1];
    let zeros = packed_by(|builder| append(builder, "app/zeros", FILE, &large));
    let told = Chart::load(zeros.path()).unwrap_err().to_string();
    assert!(told.contains("/zeros has more than 16 MiB"), "{told}");
    let fits = packed_by(|builder| append(builder, "app/zeros", FILE, &large[1..]));
    assert!(Chart::load(fits.path()).is_ok());
    let dir = directory();
    std::fs::File::create(dir.path().join("sparse")).unwrap().set_len(MOST_FILE_BYTES + 1).unwrap();
    assert!(matches!(Chart::load(dir.path()), Err(ChartError::FileTooLarge { .. })));
    let name = packed_by(|builder| {
        append(builder, "././@LongLink", EntryType::GNULongName, &large[..2 * 1024 * 1024]);
        append(builder, "app/a", FILE, b"x");
    });
    let told = Chart::load(name.path()).unwrap_err().to_string();
    assert!(told.contains("too long"), "{told}");
}

#[test]
fn directories_count_as_files_do() {
    let archive = packed_by(|builder| {
        for n in 0..3 {
            append(builder, &format!("app/{n}/b/c/x"), FILE, b"");
        }
    });
    let within = |files| Chart::load_within(archive.path(), Most { files, bytes: 1024 * 1024 });
    assert!(within(13).is_ok());
    assert!(matches!(within(12), Err(ChartError::TooManyFiles(_))));
}

#[test]
fn two_names_that_differ_in_case_are_two_files_and_of_two_equal_ones_the_last_counts() {
    let archive = packed(&[
        ("app/Chart.yaml", FILE, "name: other\nversion: 0.0.1\n"),
        ("app/chart.yaml", FILE, "name: no\n"),
        ("app/Chart.yaml", FILE, CHART_FILE),
    ]);
    let chart = Chart::load(archive.path()).unwrap();
    assert_eq!((chart.name.as_str(), chart.version.as_str()), ("app", "0.1.0"));
}

#[test]
fn a_packed_subchart_is_held_to_the_same_rules() {
    let with = |sub: &tempfile::NamedTempFile, most: Most| {
        let dir = directory();
        std::fs::create_dir(dir.path().join("charts")).unwrap();
        std::fs::copy(sub.path(), dir.path().join("charts/sub-1.0.0.tgz")).unwrap();
        Chart::load_within(dir.path(), most).err().map(|error| error.to_string())
    };
    let most = Most { files: 10, bytes: 1024 * 1024 };
    let good = packed_by(|_| {});
    assert_eq!(with(&good, most), None);
    let zeros = packed_by(|builder| append(builder, "app/zeros", FILE, &vec![0; 2 * 1024 * 1024]));
    assert!(with(&zeros, most).unwrap().contains("has more than"));
    let many = packed_by(|builder| (0..20).for_each(|n| append(builder, &format!("app/{n}"), FILE, b"")));
    assert!(with(&many, most).unwrap().contains("files"));
    let out = packed_by(|builder| append(builder, "../out", FILE, b"x"));
    assert!(with(&out, most).unwrap().contains("leads out of the chart's directory"));
    let schema = br#"{"properties": {"a": {"$ref": "file:///etc/passwd"}}}"#;
    let curious = packed_by(|builder| append(builder, "app/values.schema.json", FILE, schema));
    assert!(with(&curious, most).unwrap().contains("refers to file:///etc/passwd"));
    let mut nested = good;
    for _ in 0..MOST_PACKED {
        let inner = std::fs::read(nested.path()).unwrap();
        nested = packed_by(|builder| append(builder, "app/charts/sub.tgz", FILE, &inner));
    }
    assert!(with(&nested, most).unwrap().contains("in an archive in an archive"));
}

#[test]
fn a_schema_that_makes_helm_load_something_is_refused() {
    let dir = directory();
    write(dir.path(), "values.schema.json", r#"{"properties": {"a": {"$ref": "https://example.com/a.json"}}}"#);
    let told = Chart::load(dir.path()).unwrap_err().to_string();
    assert!(told.contains("values.schema.json refers to https://example.com/a.json"), "{told}");
}

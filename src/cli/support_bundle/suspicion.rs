//! What sounds like a secret, and is in no Secret: passwords that a person wrote into a spec, an override or a variable. Pure.
//!
//! Whatever is masked here is handed on, so that it can be looked for in everything else too: the API server quotes values in errors.
//! It judges by names. A password under a name that tells nothing is not recognised.

use serde_json::{Map, Value};

use crate::release::mask::MASK;
use crate::yaml;

/// In the name of a secret, without `-`, `_` and `.`.
const WORDS: [&str; 21] = [
    "pass",
    "pwd",
    "token",
    "secret",
    "credential",
    "private",
    "auth",
    "apikey",
    "accesskey",
    "dsn",
    "connectionstring",
    "connstr",
    "license",
    "cert",
    "jwt",
    "cookie",
    "bearer",
    "signature",
    "salt",
    "webhookurl",
    "kubeconfig",
];
/// The names that charts give to the two halves of a pair.
const NAMES: [&str; 2] = ["name", "key"];
/// Tell nothing, and stand everywhere. To look for them would spoil the rest.
const COMMON: [&str; 24] = [
    "true",
    "false",
    "null",
    "none",
    "auto",
    "always",
    "never",
    "info",
    "debug",
    "warn",
    "error",
    "default",
    "basic",
    "token",
    "secret",
    "password",
    "username",
    "user",
    "http",
    "https",
    "cert-manager",
    "tls.crt",
    "tls.key",
    "ca.crt",
];

/// Whether the value under this name may be a secret. The name of a Secret is none.
pub fn sounds_secret(name: &str) -> bool {
    let name: String =
        name.chars().filter(|c| !matches!(c, '-' | '_' | '.' | ' ')).flat_map(char::to_lowercase).collect();
    if ["name", "ref", "namespace", "path"].iter().any(|end| name.ends_with(end)) {
        return false;
    }
    let is_key = name.ends_with("key") && !matches!(name.as_str(), "key" | "topologykey");
    is_key || WORDS.iter().any(|word| name.contains(word))
}

/// Whether it is worth looking for this text in everything else.
pub fn is_common(text: &str) -> bool {
    COMMON.iter().any(|word| text.trim().eq_ignore_ascii_case(word))
}

/// Masks what stands under names that sound like secrets, also in pairs of a name and a value, and tells what it was. Of texts it
/// tells what seems to be a secret inside of them.
pub fn mask(value: &mut Value, taken: &mut Vec<Value>) {
    mask_with(value, taken, inside);
}

fn mask_with(value: &mut Value, taken: &mut Vec<Value>, of_text: fn(&str, &mut Vec<Value>)) {
    match value {
        Value::String(text) => of_text(text, taken),
        Value::Array(list) => list.iter_mut().for_each(|inner| mask_with(inner, taken, of_text)),
        Value::Object(map) => {
            pair(map, taken);
            for (key, inner) in map.iter_mut() {
                if sounds_secret(key) { texts(inner, taken) } else { mask_with(inner, taken, of_text) }
            }
        }
        _ => {}
    }
}

/// Tells what is in pairs and texts of an object, and changes nothing. The keys of objects of Kubernetes have meanings of their own.
pub fn find(value: &Value, taken: &mut Vec<Value>) {
    match value {
        Value::String(text) => inside(text, taken),
        Value::Array(list) => list.iter().for_each(|inner| find(inner, taken)),
        Value::Object(map) => {
            pair(&mut map.clone(), taken);
            map.values().for_each(|inner| find(inner, taken));
        }
        _ => {}
    }
}

/// `{name: DB_PASSWORD, value: …}`
fn pair(map: &mut Map<String, Value>, taken: &mut Vec<Value>) {
    let is_secret = NAMES.iter().any(|name| map.get(*name).and_then(Value::as_str).is_some_and(sounds_secret));
    if let Some(value) = map.get_mut("value").filter(|_| is_secret) {
        texts(value, taken);
    }
}

/// Masks all but switches: `secret.create: true` tells nothing.
pub fn texts(value: &mut Value, taken: &mut Vec<Value>) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Array(list) => list.iter_mut().for_each(|inner| texts(inner, taken)),
        Value::Object(map) => map.values_mut().for_each(|inner| texts(inner, taken)),
        said => taken.push(std::mem::replace(said, MASK.into())),
    }
}

/// Of a text that is data itself, and of all that its lines hold.
pub fn inside(text: &str, taken: &mut Vec<Value>) {
    // A text in that data may hold data once more, and so on without an end. Of it the lines are enough.
    data(text).iter_mut().for_each(|data| mask_with(data, taken, lines));
    lines(text, taken);
}

/// Of `--db-password=…`, of lines such as `password: …`, of private keys, of `{"password": "…"}`, and of `db://me:…@host`.
fn lines(text: &str, taken: &mut Vec<Value>) {
    if text.contains("PRIVATE KEY-----") {
        taken.push(text.into());
    }
    for line in text.lines() {
        taken.extend(of_line(line).into_iter().chain(of_addresses(line)).map(Value::from));
        data(in_braces(line)).iter_mut().for_each(|data| mask_with(data, taken, |_, _| {}));
    }
}

/// The maps and lists that a text is, as YAML or JSON.
fn data(text: &str) -> Vec<Value> {
    let may_be = text.contains(':') || text.trim_start().starts_with('-');
    let documents = may_be.then(|| yaml::documents(text).ok()).flatten().unwrap_or_default();
    documents.into_iter().filter(|it| it.is_object() || it.is_array()).collect()
}

/// JSON may stand in the middle of a line: `--config={…}`.
fn in_braces(line: &str) -> &str {
    match (line.find(['{', '[']), line.rfind(['}', ']'])) {
        (Some(start), Some(end)) if start < end => &line[start..=end],
        _ => "",
    }
}

/// Base64 ends in `=`, and a password may hold `: `. What is before the right one of them is a name.
fn of_line(line: &str) -> Option<&str> {
    ["=", ": "].into_iter().find_map(|separator| {
        let (name, said) = line.split_once(separator)?;
        let name = name.trim().trim_matches(['"', '\'', '-', ' ']);
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        let said = said.trim().trim_end_matches(',').trim_matches(['"', '\'']);
        Some(said).filter(|said| is_name && sounds_secret(name) && !said.is_empty())
    })
}

/// The passwords in addresses.
fn of_addresses(line: &str) -> impl Iterator<Item = &str> {
    line.split("://").skip(1).filter_map(|rest| {
        let end = rest.find(['/', '?', ' ', '"', '\'']).unwrap_or(rest.len());
        let (who, _) = rest[..end].rsplit_once('@')?;
        who.split_once(':').map(|(_, password)| password).filter(|password| !password.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn masked(mut value: Value) -> (Value, Vec<Value>) {
        let mut taken = vec![];
        mask(&mut value, &mut taken);
        (value, taken)
    }

    #[test]
    fn names_of_secrets_are_known_in_all_writings() {
        for name in [
            "dbPassword",
            "DB_PASSWD",
            "passphrase",
            "pwd",
            "api-key",
            "apiKey",
            "licenseKey",
            "encryption_key",
            "accessKey",
            "tls.key",
            "cert",
            "jwt",
            "sessionCookie",
            "SENTRY_DSN",
            "connectionString",
            "AUTH",
        ] {
            assert!(sounds_secret(name), "{name}");
        }
        for name in ["secretName", "secretRef", "key", "topologyKey", "image", "replicas", "tokenPath", "username"] {
            assert!(!sounds_secret(name), "{name}");
        }
    }

    #[test]
    fn a_value_beside_a_name_is_masked() {
        let env = json!({"extraEnv": [{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "MODE", "value": "fast"}]});
        let (shown, taken) = masked(env.clone());
        assert_eq!(
            shown["extraEnv"],
            json!([{"name": "DB_PASSWORD", "value": "***"}, {"name": "MODE", "value": "fast"}])
        );
        assert_eq!(taken, [json!("hunter2")]);
        let mut found = vec![];
        find(&env, &mut found);
        assert_eq!(found, taken);
    }

    /// What is told of a text, once each.
    fn told(text: &str) -> Vec<Value> {
        let (_, mut taken) = masked(json!({ "text": text }));
        taken.sort_by_key(Value::to_string);
        taken.dedup();
        taken
    }

    #[test]
    fn what_a_text_holds_is_told() {
        assert_eq!(told("--db-password=one"), [json!("one")]);
        assert_eq!(told("mode: fast\npassword: \"two\"\n"), [json!("two")]);
        assert_eq!(told("db://me:three@host/x"), [json!("three")]);
        assert!(told("--mode=fast").is_empty() && told("host/oauth-proxy:v7").is_empty());
    }

    #[test]
    fn a_line_with_both_separators_is_told_by_its_name() {
        let tail = "\nthis: is: no YAML";
        assert_eq!(told(&format!("api_key: dGhpcyBpcyBzZWNyZXQ={tail}")), [json!("dGhpcyBpcyBzZWNyZXQ=")]);
        assert_eq!(told(&format!("password=one: two{tail}")), [json!("one: two")]);
        assert!(told(&format!("mode: a=b{tail}")).is_empty());
    }

    #[test]
    fn a_text_that_is_data_is_read_as_data() {
        assert_eq!(told(r#"{"db": {"password": "one"}, "mode": "fast"}"#), [json!("one")]);
        assert_eq!(told("users:\n- {name: API_TOKEN, value: one}\n"), [json!("one")]);
        assert_eq!(told("auth:\n  pin: 123456\n---\nmode: fast\n"), [json!(123_456)]);
        assert_eq!(told("app.json: |\n  {\"token\": \"one\"}\n"), [json!("one")]);
        assert_eq!(told(r#"curl -d '{"token":"one"}' host"#), [json!("one")]);
    }
}

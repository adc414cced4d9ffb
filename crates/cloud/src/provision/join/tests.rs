//! What a machine is told to join with: that nothing in a name or an address can be read as anything else, and that only the
//! program that was asked for is ever run.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::Value;

use super::boot::{ENCODING, TOO_LONG, wrong};
use super::*;
use crate::provision::order::Expects;

const SUM: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn token() -> (Token, String) {
    let text = format!("orlopj.k1.{}.{}", "ab".repeat(32), "cd".repeat(32));
    (Token::read(&format!("{text}\n")).unwrap(), text)
}

fn join(server: &str, url: &str) -> JoinOrder {
    let join = Join::new(server.parse().unwrap(), url.parse().unwrap(), SUM.parse().unwrap()).unwrap();
    JoinOrder { join, token_file: "/home/me/join.token".to_owned() }
}

fn choice(site: &str, node_type: &str, model: Option<&str>) -> Choice {
    Choice {
        site: site.to_owned(),
        node_type: node_type.to_owned(),
        reserve: None,
        hosts: Vec::new(),
        start: None,
        hours: 1,
        images: Vec::new(),
        flavor: String::new(),
        su_milli: 0,
        su_known: true,
        taken: false,
        expects: Some(Expects { threads: 1, ram_gib: 1, gpus: model.map_or(0, |_| 4) }),
        gpu_model: model.map(str::to_owned),
    }
}

fn boot(own: Option<&[u8]>) -> Boot {
    let labels = labels(&DeploymentId::new("s", "p", "n"), &choice("uc", "gpu_v100", Some("Tesla V100")));
    Boot {
        order: join("https://fleet:7071", "https://get.example/orlop-worker"),
        labels,
        own: own.map(|own| STANDARD.encode(own)),
    }
}

fn made(boot: &Boot) -> Vec<u8> {
    STANDARD.decode(user_data(boot, &token().0).unwrap().reveal()).unwrap()
}

/// The cloud-config of a document, read as YAML.
fn config(text: &str) -> Value {
    assert!(text.starts_with("#cloud-config\n"), "{text}");
    serde_saphyr::from_str(text).unwrap()
}

/// Files of a cloud-config: path, mode and content.
fn files(config: &Value) -> Vec<(String, String, String)> {
    let text = |file: &Value, key: &str| file[key].as_str().unwrap().to_owned();
    let content = |file: &Value| String::from_utf8(STANDARD.decode(text(file, "content")).unwrap()).unwrap();
    config["write_files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (text(file, "path"), text(file, "permissions"), content(file)))
        .collect()
}

/// The words of a command as systemd reads them: quotes, escapes, `%%` and `$$`.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted, mut begun) = (Vec::new(), Vec::new(), false, false);
    let mut rest = line.chars().peekable();
    while let Some(ch) = rest.next() {
        match ch {
            '"' => (quoted, begun) = (!quoted, true),
            ' ' if !quoted => {
                if std::mem::take(&mut begun) {
                    words.push(word.drain(..).collect());
                }
            }
            '\\' => match rest.next().unwrap() {
                'x' => {
                    let digits: String = [rest.next().unwrap(), rest.next().unwrap()].into_iter().collect();
                    word.push(char::from(u8::from_str_radix(&digits, 16).unwrap()));
                }
                other => word.push(other),
            },
            '%' | '$' => {
                assert_eq!(rest.next(), Some(ch), "a specifier or variable in {line}");
                word.push(ch);
            }
            _ => {
                begun = true;
                word.push(ch);
            }
        }
    }
    assert!(!quoted, "{line}");
    if begun {
        words.push(word.into_iter().collect());
    }
    words
}

fn command(unit: &str) -> Vec<String> {
    let lines: Vec<&str> = unit.lines().filter_map(|line| line.strip_prefix("ExecStart=")).collect();
    assert_eq!(lines.len(), 1, "{unit}");
    words(lines.first().unwrap())
}

#[test]
fn a_machine_gets_the_token_the_program_and_a_unit() {
    let text = String::from_utf8(made(&boot(None))).unwrap();
    let config = config(&text);
    let files = files(&config);
    let places: Vec<(&str, &str)> = files.iter().map(|(path, mode, _)| (path.as_str(), mode.as_str())).collect();
    let unit = ("/etc/systemd/system/orlop-worker.service", "0644");
    assert_eq!(places, [("/run/orlop/join-token", "0600"), ("/run/orlop/fetch-worker", "0700"), unit]);
    assert_eq!(files.first().unwrap().2, token().1);
    let ran = config["runcmd"].as_array().unwrap();
    let ran: Vec<&str> = ran.first().unwrap().as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let program = "/usr/local/bin/orlop-worker";
    let expected = [
        "sh",
        "/run/orlop/fetch-worker",
        "https://get.example/orlop-worker",
        SUM,
        "https",
        program,
        "orlop-worker.service",
    ];
    assert_eq!(ran, expected);
    insta::assert_snapshot!(files.get(2).unwrap().2.replace(DeploymentId::new("s", "p", "n").as_str(), "DEPLOYMENT"));
}

/// What protects the machine in the unit for people protects it here too.
#[test]
fn the_unit_is_as_hardened_as_the_one_for_people() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd/orlop-worker.service");
    let theirs = std::fs::read_to_string(folder).unwrap();
    let ours = unit(&"https://fleet".parse().unwrap(), &BTreeMap::new());
    let own = ["ExecStart=", "Restart=", "ConfigurationDirectory=", "#"];
    for line in theirs.lines().filter(|line| !own.iter().any(|front| line.starts_with(front))) {
        assert!(ours.lines().any(|one| one == line), "{line} is missing");
    }
    assert!(ours.contains("\nRestart=on-failure\n"), "what was drained stays away");
}

#[test]
fn labels_say_what_was_leased_and_nothing_that_could_be_two() {
    let id = DeploymentId::new("s", "p", "n");
    let said = |choice: &Choice| {
        let labels = labels(&id, choice);
        assert_eq!(labels.get("deployment").map(String::as_str), Some(id.as_str()));
        labels.iter().skip(1).map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        said(&choice("uc", "gpu_v100", Some("Tesla V100"))),
        "gpu-count=4 gpu-model=Tesla-V100 node-type=gpu_v100 site=uc"
    );
    assert_eq!(said(&choice("uc", "compute", None)), "node-type=compute site=uc");
    assert_eq!(said(&choice("a,b=c", "x\"\n$(y)", None)), "node-type=x----y- site=a-b-c");
    let command = token_command(&id, 135);
    let expected = format!(
        "orlop workers token create --uses 1 --ttl 135m --label deployment={id} --label site --label node-type \
         --label gpu-model --label gpu-count --write join.token"
    );
    assert_eq!(command, expected);
}

#[test]
fn addresses_are_https_or_of_the_machine_itself() {
    for good in [
        "https://h",
        "https://h:7071/",
        "http://127.0.0.1:9/x",
        "http://[::1]/x",
        "http://localhost/x",
        "https://h/a?b=c&d=%20",
    ] {
        assert_eq!(good.parse::<Address>().unwrap().as_str(), good);
    }
    for bad in [
        "",
        "h",
        "http://h/x",
        "ftp://h",
        "file:///etc",
        "https://",
        "https://u:p@h/",
        "https://h/\n",
        "https://h/ x",
        "https://h/\"",
        "HTTPS://h",
        "https://h/$(x)`",
        "http://127.0.0.1.example/x",
        "https://h/\u{e9}",
    ] {
        assert!(bad.parse::<Address>().is_err(), "{bad:?}");
    }
    let url: Address = "https://h/x".parse().unwrap();
    assert!(Join::new(url.clone(), url.clone(), SUM.parse().unwrap()).is_err(), "a server has no path");
    assert!(Join::new("https://a,https://b".parse().unwrap_or(url.clone()), url, SUM.parse().unwrap()).is_err());
    assert!(
        "zz".repeat(32).parse::<Digest>().is_err() && SUM.to_uppercase().parse::<Digest>().unwrap().as_str() == SUM
    );
}

#[test]
fn what_is_no_token_is_refused_and_a_token_is_never_shown() {
    let (token, text) = token();
    let printed = format!("{token:?} {:?}", user_data(&boot(None), &token).unwrap());
    assert!(!printed.contains(text.get(10..40).unwrap()) && printed.contains("bytes"), "{printed}");
    let long = format!("orlopj.a.{}.b", "c".repeat(600));
    for bad in
        ["", "hunter2", "orlopj.a.b", "orlopj.a.b.", "orlopj.a.b.c\nd", "orlopj.A.b.c", "other.a.b.c", long.as_str()]
    {
        let error = Token::read(bad).unwrap_err().to_string();
        assert!(bad.is_empty() || !error.contains(bad), "{error}");
    }
}

#[test]
fn more_than_64_kib_encoded_is_refused_before_anything_is_asked() {
    let (token, _) = token();
    let order = join("https://fleet", "https://get.example/w");
    let fits_with = |bytes: usize| fits(&order, Some(&STANDARD.encode("x".repeat(bytes))), &token);
    let most = (0..60_000).rev().step_by(64).find(|bytes| fits_with(*bytes).is_ok()).unwrap();
    assert!((40_000..48 * 1024).contains(&most), "{most}");
    assert_eq!(fits_with(most + 64), Err(wrong(TOO_LONG)));
    let whole = Boot { own: Some(STANDARD.encode("x".repeat(most))), ..boot(None) };
    assert!(user_data(&whole, &token).is_ok(), "what fits the widest fits what is leased");
    assert_eq!(fits(&order, Some("no base64!"), &token), Err(wrong(ENCODING)));
}

/// Parts of a document of several, by its boundary: heads and bodies, decoded.
fn parts(document: &[u8]) -> Vec<(String, Vec<u8>)> {
    let text = String::from_utf8_lossy(document).into_owned();
    let (head, body) = text.split_once("\n\n").unwrap();
    let boundary = head.split("boundary=\"").nth(1).unwrap().split('"').next().unwrap();
    let open = format!("--{boundary}\n");
    let (front, rest) = body.split_once(&open).unwrap();
    assert_eq!(front, "");
    let rest = rest.strip_suffix(&format!("\n--{boundary}--\n")).unwrap();
    let read = |part: &str| {
        let (head, body) = part.split_once("\n\n").unwrap();
        let body = if head.contains("base64") { STANDARD.decode(body).unwrap() } else { body.as_bytes().to_vec() };
        (head.to_owned(), body)
    };
    rest.split(&format!("\n{open}")).map(read).collect()
}

#[test]
fn what_the_user_runs_stays_as_it_is_and_ours_adds_to_it() {
    for own in [
        &b"#!/bin/sh\necho hello\n"[..],
        b"#cloud-config\nruncmd: [x]",
        b"\x1f\x8b\x08binary\0",
        "#!/bin/sh\necho gr\u{fc}n\r\n".as_bytes(),
        b"",
        b"--\n--orlop-",
    ] {
        let parts = parts(&made(&boot(Some(own))));
        assert_eq!(parts.len(), 2, "{own:?}");
        assert_eq!(parts.first().unwrap().1, own);
        let (head, ours) = parts.get(1).unwrap();
        assert!(head.starts_with("Content-Type: text/cloud-config"), "{head}");
        let ours = config(std::str::from_utf8(ours).unwrap());
        assert_eq!((&ours["merge_how"][0]["settings"][0], files(&ours).len()), (&"append".into(), 3));
    }
    let several = "Content-Type: multipart/mixed; boundary=\"b\"\nMIME-Version: 1.0\n\n--b\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n--b--\n";
    let parts = parts(&made(&boot(Some(several.as_bytes()))));
    assert!(parts.first().unwrap().0.contains("boundary=\"b\""), "several parts are one of ours: {parts:?}");
}

proptest! {
    /// Whatever stands in a name: the document is read as what was meant, and the unit starts one program with these words.
    #[test]
    fn nothing_in_a_name_or_an_address_is_read_as_anything_else(
        path in "[-a-zA-Z0-9._~:/?@!&'()*+,;=%]{0,60}", site in any::<String>(), node_type in ".{0,90}", model in any::<String>(),
    ) {
        let url = format!("https://get.example/{path}");
        let choice = choice(&site, &node_type, Some(&model));
        let labels = labels(&DeploymentId::new("s", "p", "n"), &choice);
        let boot = Boot { order: join("https://fleet:7071", &url), labels: labels.clone(), own: None };
        let text = String::from_utf8(made(&boot)).unwrap();
        prop_assert!(text.is_ascii());
        let config = config(&text);
        prop_assert_eq!(config.as_object().unwrap().keys().collect::<Vec<_>>(), ["runcmd", "write_files"]);
        prop_assert_eq!(config["runcmd"].as_array().unwrap().len(), 1);
        prop_assert_eq!(config["runcmd"][0][2].as_str(), Some(url.as_str()));
        let unit = &files(&config)[2].2;
        let words = command(unit);
        let said: Vec<&str> = words.iter().enumerate().filter(|(at, _)| *at > 0 && words[at - 1] == "--label").map(|(_, word)| word.as_str()).collect();
        let meant: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        prop_assert_eq!(said, meant.iter().map(String::as_str).collect::<Vec<_>>());
        prop_assert!(labels.values().all(|value| !value.contains([',', '=', '"', '\\', '\n'])));
    }

    /// Also of texts that no rule has shortened before.
    #[test]
    fn every_word_of_a_unit_is_one_word(value in any::<String>()) {
        let value: String = value.chars().filter(|ch| *ch != '\0').collect();
        let labels = BTreeMap::from([("x".to_owned(), value.clone())]);
        let unit = unit(&"https://fleet:7071".parse().unwrap(), &labels);
        prop_assert_eq!(command(&unit).pop().unwrap(), format!("x={value}"));
        prop_assert_eq!(unit.lines().count(), super::unit(&"https://fleet:7071".parse().unwrap(), &BTreeMap::new()).lines().count());
    }

    /// Whatever a user runs first comes out as it went in.
    #[test]
    fn user_data_come_out_as_they_went_in(own in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert_eq!(parts(&made(&boot(Some(&own)))).swap_remove(0).1, own);
    }
}

/// A server that gives the same bytes to everybody.
fn gives(bytes: &'static [u8]) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/orlop-worker", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            drop(stream.read(&mut request));
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", bytes.len());
            drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(bytes)));
        }
    });
    url
}

#[test]
fn a_program_with_another_digest_is_never_run() {
    const WORKER: &[u8] = b"#!/bin/sh\nexit 0\n";
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("fetch");
    let config = config(&String::from_utf8(made(&boot(None))).unwrap());
    std::fs::write(&script, &files(&config).get(1).unwrap().2).unwrap();
    let systemctl = folder.path().join("bin/systemctl");
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    std::fs::write(&systemctl, format!("#!/bin/sh\necho \"$@\" >> {}/asked\n", folder.path().display())).unwrap();
    std::fs::set_permissions(&systemctl, std::fs::Permissions::from_mode(0o700)).unwrap();
    let url = gives(WORKER);
    let program = folder.path().join("orlop-worker");
    let run = |sum: &str, protocol: &str| {
        let mut command = Command::new("sh");
        let path = format!("{}:{}", folder.path().join("bin").display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).arg(&script).args([&url, sum, protocol]).arg(&program).arg("orlop-worker.service");
        command.output().unwrap().status.success()
    };
    assert!(!run(SUM, "http"), "another program is there");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.len() == 2 && !program.exists(), "nothing of it is left: {left:?}");
    let sum: String = <sha2::Sha256 as sha2::Digest>::digest(WORKER).iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(!run(&sum, "https"), "only the protocol that was asked for");
    assert!(run(&sum, "http"));
    assert_eq!(std::fs::read(&program).unwrap(), WORKER);
    assert_eq!(std::fs::metadata(&program).unwrap().permissions().mode() & 0o777, 0o755);
    let asked = std::fs::read_to_string(folder.path().join("asked")).unwrap();
    assert_eq!(asked, "daemon-reload\nenable --now orlop-worker.service\n");
}

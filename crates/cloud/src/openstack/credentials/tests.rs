//! Files and settings as people have them.

use super::*;

const FILE: &str = "clouds:\n  chi:\n    region_name: CHI@UC\n    auth_type: v3applicationcredential\n    auth:\n      auth_url: https://chi.uc.chameleoncloud.org:5000\n      application_credential_id: abc\n      application_credential_secret: hunter22\n  pw:\n    auth:\n      auth_url: http://127.0.0.1:5000/v3\n      username: u\n      password: 12345\n      project_id: P\n";

#[test]
fn assignments_are_read_and_never_executed() {
    let text = "# x\r\nexport OS_USERNAME=me\r\nOS_PASSWORD='it''s # x'\nOS_PROJECT_NAME=\"a b\\\"c\" # why\nOS_A=x#y\nOS_B=\n\nfor v in x; do unset $v; done\nOS_C=$(id)\nOS_D=`id`\nOS_E=\"$HOME\"\nOS_F='$HOME'\nOS_G=\"open\n1X=3\nread -sr OS_PASSWORD_INPUT\nOS_H=a;rm -rf x\nexported=1\n";
    let found = read_assignments(text);
    let of = |key: &str| found.values.get(key).map(String::as_str);
    assert_eq!(of("OS_USERNAME"), Some("me"));
    assert_eq!(of("OS_PASSWORD"), Some("its # x"));
    assert_eq!(of("OS_PROJECT_NAME"), Some("a b\"c"));
    assert_eq!((of("OS_A"), of("OS_B"), of("OS_F")), (Some("x#y"), Some(""), Some("$HOME")));
    assert_eq!(of("exported"), Some("1"));
    assert_eq!(found.ignored, [8, 9, 10, 11, 13, 14, 15, 16]);
    assert!(!format!("{found:?}").contains("its"));
}

#[test]
fn clouds_are_read_by_name_and_the_strongest_wins() {
    let chi = read_clouds("clouds.yaml", FILE, "chi").unwrap();
    assert_eq!(chi.get("OS_REGION_NAME"), Some("CHI@UC"));
    assert!(!format!("{chi:?}").contains("hunter22"));
    let error = read_clouds("clouds.yaml", FILE, "nope").unwrap_err();
    insta::assert_snapshot!(error, @"cloud `nope` is not in clouds.yaml; there are: chi, pw");
    let error = read_clouds("f", "clouds: {auth_url: \"https://x\", passwordhunter22, chi: {}}", "nope").unwrap_err();
    insta::assert_snapshot!(error, @"cloud `nope` is not in f; there are: chi");
    let mut flags = Settings::default();
    flags.set("OS_REGION_NAME", "CHI@TACC");
    assert_eq!(flags.over(&chi).get("OS_REGION_NAME"), Some("CHI@TACC"));
    let secure = read_secure("secure.yaml", "clouds: {pw: {auth: {password: other}}}", "pw").unwrap();
    assert_eq!(secure.get("OS_PASSWORD"), Some("other"));
    assert!(read_secure("secure.yaml", "clouds: {}", "pw").unwrap().is_empty());
}

#[test]
fn one_way_to_sign_in_is_not_mixed_with_another() {
    let env = Settings::of([("OS_USERNAME", "u"), ("OS_PASSWORD", "p"), ("PATH", "/bin"), ("OS_CACERT", "")]);
    let merged = env.over(&read_clouds("clouds.yaml", FILE, "chi").unwrap());
    assert_eq!(merged.get("OS_APPLICATION_CREDENTIAL_ID"), None);
    assert_eq!((merged.get("OS_AUTH_TYPE"), merged.get("PATH")), (None, None));
    assert_eq!(merged.get("OS_AUTH_URL"), Some("https://chi.uc.chameleoncloud.org:5000"));
}

#[test]
fn a_broken_file_is_reported_by_its_line_and_never_quoted() {
    for text in ["clouds:\n  a:\n   - b\n  \tpassword: hunter22: x\n", "clouds: [hunter22", "- 1", "", "clouds: 3"] {
        let error = read_clouds("clouds.yaml", text, "a").unwrap_err().to_string();
        assert!(error.contains("clouds.yaml") && !error.contains("hunter22"), "{error}");
    }
    let error = read_clouds("clouds.yaml", "clouds:\n  a: {\n", "a").unwrap_err().to_string();
    assert!(error.contains("line "), "{error}");
    assert!(read_clouds("clouds.yaml", &"#".repeat(MAX_FILE + 1), "a").is_err());
    let bomb = format!(
        "a: &a [x]\n{}clouds: {{a: *z}}\n",
        ('b'..='z')
            .map(|c| {
                let before = char::from(u8::try_from(c).unwrap() - 1);
                format!("{c}: &{c} [{}]\n", vec![format!("*{before}"); 9].join(","))
            })
            .collect::<String>()
    );
    assert!(read_clouds("clouds.yaml", &bomb, "a").is_err());
}

#[cfg(feature = "openstack")]
#[test]
fn documents_that_sign_in() {
    let resolved = resolve(&read_clouds("clouds.yaml", FILE, "chi").unwrap()).unwrap();
    assert_eq!(resolved.auth_url, "https://chi.uc.chameleoncloud.org:5000/v3");
    insta::assert_snapshot!(resolved.document(None), @r#"{"auth":{"identity":{"application_credential":{"id":"abc","secret":"hunter22"},"methods":["application_credential"]}}}"#);
    let resolved = resolve(&read_clouds("clouds.yaml", FILE, "pw").unwrap()).unwrap();
    insta::assert_snapshot!(resolved.document(None), @r#"{"auth":{"identity":{"methods":["password"],"password":{"user":{"domain":{"id":"default"},"name":"u","password":"12345"}}},"scope":{"project":{"id":"P"}}}}"#);
    let settings = Settings::of([
        ("OS_AUTH_URL", "https://x/identity"),
        ("OS_TOKEN", "tok"),
        ("OS_PROJECT_NAME", "p"),
        ("OS_PROJECT_DOMAIN_NAME", "Default"),
    ]);
    insta::assert_snapshot!(resolve(&settings).unwrap().document(None), @r#"{"auth":{"identity":{"methods":["token"],"token":{"id":"tok"}},"scope":{"project":{"domain":{"name":"Default"},"name":"p"}}}}"#);
    assert!(!format!("{:?}", resolve(&settings).unwrap()).contains("\"tok\""));
}

#[cfg(feature = "openstack")]
#[test]
fn what_is_missing_or_readable_by_others_is_refused() {
    let of =
        |pairs: &[(&str, &str)]| resolve(&Settings::of(pairs.iter().copied())).map(|_| ()).unwrap_err().to_string();
    let reported = [
        of(&[]),
        of(&[("OS_AUTH_URL", "http://cloud.example/v3")]),
        of(&[("OS_AUTH_URL", "ftp://cloud.example/v3")]),
        of(&[("OS_AUTH_URL", "https://me:secret@cloud.example/v3")]),
        of(&[("OS_AUTH_URL", "https://x"), ("OS_AUTH_TYPE", "v3kerberos")]),
        of(&[("OS_AUTH_URL", "https://x"), ("OS_USERNAME", "u")]),
        of(&[("OS_AUTH_URL", "https://x"), ("OS_USERNAME", "u"), ("OS_PASSWORD", "p")]),
        of(&[("OS_AUTH_URL", "https://x"), ("OS_AUTH_TYPE", "v3applicationcredential")]),
    ];
    insta::assert_snapshot!(reported.join("\n"), @r"
    the address to sign in is missing; set OS_AUTH_URL, or choose a cloud of clouds.yaml with --cloud
    the address in OS_AUTH_URL is not usable: http would expose secrets; use https, or name the address in an entry of clouds.yaml
    the address in OS_AUTH_URL is not usable: it is not https
    the address in OS_AUTH_URL is not usable: it holds a user
    signing in by `v3kerberos` is not possible; use password, v3applicationcredential, token, v3oidcpassword or v3oidcaccesstoken
    the password is missing; set OS_PASSWORD, or choose a cloud of clouds.yaml with --cloud
    the project is missing; set OS_PROJECT_ID or OS_PROJECT_NAME, or choose a cloud of clouds.yaml with --cloud
    the secret is missing; set OS_APPLICATION_CREDENTIAL_SECRET, or choose a cloud of clouds.yaml with --cloud
    ");
}

#[cfg(feature = "openstack")]
#[test]
fn an_address_of_http_is_taken_from_an_entry_of_clouds_and_from_nowhere_else() {
    let text =
        "clouds: {lab: {auth: {auth_url: \"http://10.0.0.1:5000/v3\", username: u, password: p, project_id: p}}}";
    let entry = read_clouds("clouds.yaml", text, "lab").unwrap();
    let found = resolve(&entry).unwrap();
    assert_eq!((found.auth_url.as_str(), found.is_readable), ("http://10.0.0.1:5000/v3", true));
    let secret = read_secure("secure.yaml", "clouds: {lab: {auth: {password: q}}}", "lab").unwrap();
    assert!(resolve(&secret.merged(&entry)).unwrap().is_readable);
    let other = Settings::of([("OS_AUTH_URL", "http://10.0.0.2:5000/v3")]);
    assert!(
        resolve(&other.over(&entry)).unwrap_err().to_string().contains("http would expose"),
        "it is not the entry's"
    );
    let https = read_clouds("clouds.yaml", FILE, "chi").unwrap();
    assert!(!resolve(&https).unwrap().is_readable);
    let here = read_clouds("clouds.yaml", FILE, "pw").unwrap();
    assert!(!resolve(&here).unwrap().is_readable, "nobody else is on the way to this machine");
}

#[test]
fn each_key_of_a_cloud_that_is_not_used_is_reported_with_what_does_so_here() {
    let text = "clouds:\n  lab:\n    verify: false\n    insecure: true\n    regions: [a, b]\n    compute_endpoint_override: https://x\n    identity_interface: admin\n    identity_api_version: 2\n    floating_ip_source: null\n    cacert: [a]\n    hunter22: x\n    auth: {auth_url: \"https://x\", trust_id: t, password: {a: b}}\n";
    let found = read_clouds("clouds.yaml", text, "lab").unwrap();
    insta::assert_snapshot!(found.ignored().join("\n"));
    let quiet = "clouds: {lab: {verify: true, insecure: false, identity_api_version: \"3\", regions: [{name: here}], endpoint_type: internalURL, auth_type: password, auth: {auth_url: \"https://x\"}}}";
    let found = read_clouds("clouds.yaml", quiet, "lab").unwrap();
    assert_eq!(found.ignored(), [""; 0]);
    assert_eq!((found.get("OS_REGION_NAME"), found.get("OS_INTERFACE")), (Some("here"), Some("internalURL")));
    let both = "clouds: {lab: {interface: public, endpoint_type: admin, region_name: a, regions: [b]}}";
    let found = read_clouds("clouds.yaml", both, "lab").unwrap();
    assert_eq!((found.get("OS_REGION_NAME"), found.get("OS_INTERFACE")), (Some("a"), Some("public")));
    let many: String = (0..100).map(|_| "x").collect();
    let many = format!(
        "clouds: {{lab: {{{}}}}}",
        (1..=30).map(|at| format!("{}: 1", &many[..at])).collect::<Vec<_>>().join(", ")
    );
    assert_eq!(read_clouds("clouds.yaml", &many, "lab").unwrap().ignored().len(), 20);
}

#[test]
fn a_profile_gives_what_an_entry_leaves_out() {
    let text = "clouds: {lab: {profile: vendor, region_name: here, auth: {username: u}}}";
    let entry = read_clouds("clouds.yaml", text, "lab").unwrap();
    assert_eq!(entry.profile(), Some("vendor"));
    let public = "public-clouds: {vendor: {auth: {auth_url: \"https://vendor.test/v3\"}, region_name: there, image_format: raw}}";
    assert!(read_profile("clouds-public.yaml", public, "other").unwrap().is_none());
    let profile = read_profile("clouds-public.yaml", public, "vendor").unwrap().unwrap();
    let whole = entry.with_profile(&profile);
    assert_eq!(whole.profile(), None);
    assert_eq!((whole.get("OS_AUTH_URL"), whole.get("OS_REGION_NAME")), (Some("https://vendor.test/v3"), Some("here")));
    assert_eq!(whole.ignored(), ["clouds-public.yaml: `image_format` of cloud `vendor` is not used"]);
}

#[cfg(feature = "openstack")]
const CAMPUS: &str = "
clouds:
  campus:
    auth_type: v3oidcpassword
    auth:
      auth_url: https://cloud.test/v3
      identity_provider: campus
      protocol: openid
      discovery_endpoint: https://login.test/.well-known/openid-configuration
      client_id: orlop
      client_secret: planted-client
      username: me
      password: planted-password
      project_id: P
";

#[cfg(feature = "openstack")]
#[test]
fn an_identity_provider_is_read_from_a_file_of_clouds_and_nothing_secret_is_reported() {
    let settings = read_clouds("clouds.yaml", CAMPUS, "campus").unwrap();
    let found = resolve(&settings).unwrap();
    let Method::Federated(federation) = &found.method else { panic!("{found:?}") };
    assert_eq!((federation.provider.as_str(), federation.protocol.as_str()), ("campus", "openid"));
    assert!(matches!(&federation.grant, Grant::Password { client_secret: Some(_), .. }));
    assert!(!format!("{settings:?} {found:?}").contains("planted"));
    assert_eq!(found.document(Some(&"unscoped".to_owned().into()))["auth"]["identity"]["token"]["id"], "unscoped");
    let mut reported = Vec::new();
    for (name, value) in [
        ("OS_IDENTITY_PROVIDER", "../x"),
        ("OS_IDENTITY_PROVIDER", ".."),
        ("OS_PROTOCOL", "a b"),
        ("OS_DISCOVERY_ENDPOINT", "http://login.test/"),
        ("OS_AUTH_TYPE", "v3oidcaccesstoken"),
    ] {
        let mut other = settings.clone();
        other.set(name, value);
        reported.push(resolve(&other).unwrap_err().to_string());
    }
    insta::assert_snapshot!(reported.join("\n"), @r"
    OS_IDENTITY_PROVIDER is not a valid name of an identity provider or protocol: use letters, digits and -_.@, at most 64
    OS_IDENTITY_PROVIDER is not a valid name of an identity provider or protocol: use letters, digits and -_.@, at most 64
    OS_PROTOCOL is not a valid name of an identity provider or protocol: use letters, digits and -_.@, at most 64
    the address in OS_DISCOVERY_ENDPOINT is not usable: http would expose secrets; use https
    the access token is missing; set OS_ACCESS_TOKEN, or choose a cloud of clouds.yaml with --cloud
    ");
}

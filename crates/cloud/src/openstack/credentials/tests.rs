//! Files and settings as people have them.

use super::*;

const FILE: &str = "clouds:\n  chi:\n    region_name: CHI@UC\n    auth_type: v3applicationcredential\n    auth:\n      auth_url: https://chi.uc.chameleoncloud.org:5000\n      application_credential_id: abc\n      application_credential_secret: hunter22\n  pw:\n    auth:\n      auth_url: http://127.0.0.1:5000/v3\n      username: u\n      password: 12345\n      project_id: P\n";

#[test]
fn s1_assignments_are_read_and_never_executed() {
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
fn s1_clouds_are_read_by_name_and_the_strongest_wins() {
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
fn s1_one_way_to_sign_in_is_not_mixed_with_another() {
    let env = Settings::of([("OS_USERNAME", "u"), ("OS_PASSWORD", "p"), ("PATH", "/bin"), ("OS_CACERT", "")]);
    let merged = env.over(&read_clouds("clouds.yaml", FILE, "chi").unwrap());
    assert_eq!(merged.get("OS_APPLICATION_CREDENTIAL_ID"), None);
    assert_eq!((merged.get("OS_AUTH_TYPE"), merged.get("PATH")), (None, None));
    assert_eq!(merged.get("OS_AUTH_URL"), Some("https://chi.uc.chameleoncloud.org:5000"));
}

#[test]
fn a_broken_file_is_told_by_its_line_and_never_quoted() {
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
fn s6_documents_that_sign_in() {
    let resolved = resolve(&read_clouds("clouds.yaml", FILE, "chi").unwrap()).unwrap();
    assert_eq!(resolved.auth_url, "https://chi.uc.chameleoncloud.org:5000/v3");
    insta::assert_snapshot!(resolved.document(None), @r#"{"auth":{"identity":{"methods":["application_credential"],"application_credential":{"id":"abc","secret":"hunter22"}}}}"#);
    let resolved = resolve(&read_clouds("clouds.yaml", FILE, "pw").unwrap()).unwrap();
    insta::assert_snapshot!(resolved.document(None), @r#"{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"u","domain":{"id":"default"},"password":"12345"}}},"scope":{"project":{"id":"P"}}}}"#);
    let settings = Settings::of([
        ("OS_AUTH_URL", "https://x/identity"),
        ("OS_TOKEN", "tok"),
        ("OS_PROJECT_NAME", "p"),
        ("OS_PROJECT_DOMAIN_NAME", "Default"),
    ]);
    insta::assert_snapshot!(resolve(&settings).unwrap().document(None), @r#"{"auth":{"identity":{"methods":["token"],"token":{"id":"tok"}},"scope":{"project":{"name":"p","domain":{"name":"Default"}}}}}"#);
    assert!(!format!("{:?}", resolve(&settings).unwrap()).contains("\"tok\""));
}

#[cfg(feature = "openstack")]
#[test]
fn s10_what_is_missing_or_readable_by_others_is_refused() {
    let of =
        |pairs: &[(&str, &str)]| resolve(&Settings::of(pairs.iter().copied())).map(|_| ()).unwrap_err().to_string();
    let told = [
        of(&[]),
        of(&[("OS_AUTH_URL", "http://cloud.example/v3")]),
        of(&[("OS_AUTH_URL", "ftp://cloud.example/v3")]),
        of(&[("OS_AUTH_URL", "https://me:secret@cloud.example/v3")]),
        of(&[("OS_AUTH_URL", "https://x"), ("OS_AUTH_TYPE", "v3kerberos")]),
        of(&[("OS_AUTH_URL", "https://x"), ("OS_USERNAME", "u")]),
        of(&[("OS_AUTH_URL", "https://x"), ("OS_USERNAME", "u"), ("OS_PASSWORD", "p")]),
        of(&[("OS_AUTH_URL", "https://x"), ("OS_AUTH_TYPE", "v3applicationcredential")]),
    ];
    insta::assert_snapshot!(told.join("\n"), @r"
    the address to sign in is missing; set OS_AUTH_URL, or choose a cloud of clouds.yaml with --cloud
    the address in OS_AUTH_URL is not usable: http would show secrets to everybody; use https
    the address in OS_AUTH_URL is not usable: it is not https
    the address in OS_AUTH_URL is not usable: it holds a user
    signing in by `v3kerberos` is not possible; use password, v3applicationcredential, token, v3oidcpassword or v3oidcaccesstoken
    the password is missing; set OS_PASSWORD, or choose a cloud of clouds.yaml with --cloud
    the project is missing; set OS_PROJECT_ID or OS_PROJECT_NAME, or choose a cloud of clouds.yaml with --cloud
    the secret is missing; set OS_APPLICATION_CREDENTIAL_SECRET, or choose a cloud of clouds.yaml with --cloud
    ");
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
fn s6_an_identity_provider_is_read_from_a_file_of_clouds_and_nothing_secret_is_told() {
    let settings = read_clouds("clouds.yaml", CAMPUS, "campus").unwrap();
    let found = resolve(&settings).unwrap();
    let Method::Federated(federation) = &found.method else { panic!("{found:?}") };
    assert_eq!((federation.provider.as_str(), federation.protocol.as_str()), ("campus", "openid"));
    assert!(matches!(&federation.grant, Grant::Password { client_secret: Some(_), .. }));
    assert!(!format!("{settings:?} {found:?}").contains("planted"));
    assert_eq!(found.document(Some(&"unscoped".to_owned().into()))["auth"]["identity"]["token"]["id"], "unscoped");
    let mut told = Vec::new();
    for (name, value) in [
        ("OS_IDENTITY_PROVIDER", "../x"),
        ("OS_IDENTITY_PROVIDER", ".."),
        ("OS_PROTOCOL", "a b"),
        ("OS_DISCOVERY_ENDPOINT", "http://login.test/"),
        ("OS_AUTH_TYPE", "v3oidcaccesstoken"),
    ] {
        let mut other = settings.clone();
        other.set(name, value);
        told.push(resolve(&other).unwrap_err().to_string());
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    OS_IDENTITY_PROVIDER is no name of an identity provider or its protocol: letters, digits and -_.@, at most 64
    OS_IDENTITY_PROVIDER is no name of an identity provider or its protocol: letters, digits and -_.@, at most 64
    OS_PROTOCOL is no name of an identity provider or its protocol: letters, digits and -_.@, at most 64
    the address in OS_DISCOVERY_ENDPOINT is not usable: http would show secrets to everybody; use https
    the access token is missing; set OS_ACCESS_TOKEN, or choose a cloud of clouds.yaml with --cloud
    ");
}

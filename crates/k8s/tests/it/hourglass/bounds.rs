//! Bounds of every field of both kinds: what is just inside is taken, what is just outside is refused
//! by its name; and spellings of trusted environments (2.3).

use orlop_core::hardware::parse_tee_type;
use orlop_k8s::crd::hourglass::{executor, performer};
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

const GROUP: &str = "hourglass.eigenlayer.io";
const ADDRESS: &str = "0x1234567890abcdef1234567890ABCDEF12345678";

/// A server that is asked to take objects of one kind, each with one field of its own.
struct TestEnv {
    server: ApiServer,
    kind: &'static str,
    plural: &'static str,
    spec: Value,
    asked: usize,
}

impl TestEnv {
    fn performers() -> Self {
        let server = ApiServer::new();
        server.install(&performer()).expect("the server takes the definition");
        let spec = json!({"avsAddress": ADDRESS, "image": "i"});
        Self { server, kind: "Performer", plural: "performers", spec, asked: 0 }
    }

    fn executors() -> Self {
        let server = ApiServer::new();
        server.install(&executor()).expect("the server takes the definition");
        let config =
            json!({"aggregatorEndpoint": "a:1", "operatorKeysSecretRef": {"name": "s"}, "chains": [chain(json!({}))]});
        let spec = json!({"image": "i", "config": config});
        Self { server, kind: "HourglassExecutor", plural: "hourglassexecutors", spec, asked: 0 }
    }

    /// The answer to an object with this value at a path, where null is no value.
    fn asked(&mut self, path: &str, value: &Value) -> Result<Value, String> {
        let mut spec = self.spec.clone();
        let mut place = &mut spec;
        let (parents, last) = path.rsplit_once('.').map_or((None, path), |(parents, last)| (Some(parents), last));
        for name in parents.into_iter().flat_map(|parents| parents.split('.')) {
            place = &mut place[name];
        }
        if value.is_null() {
            place.as_object_mut().expect("it has members").remove(last);
        } else {
            place[last] = value.clone();
        }
        self.asked += 1;
        let metadata = json!({"name": format!("o{}", self.asked)});
        let object =
            json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": self.kind, "metadata": metadata, "spec": spec});
        self.server.create(GROUP, self.plural, "default", &object)
    }

    fn takes(&mut self, path: &str, values: impl IntoIterator<Item = Value>) {
        for value in values {
            let taken = self.asked(path, &value);
            let taken = taken.unwrap_or_else(|refused| panic!("{path}: {} is refused: {refused}", short(&value)));
            let pointer = format!("/spec/{}", path.replace('.', "/"));
            let kept = taken.pointer(&pointer).unwrap_or(&Value::Null);
            contains(kept, &value, path);
        }
    }

    fn refuses(&mut self, path: &str, values: impl IntoIterator<Item = Value>) {
        let name = path.rsplit('.').next().unwrap_or(path).to_owned();
        for value in values {
            let answer = self.asked(path, &value);
            let refused = answer.err().unwrap_or_else(|| panic!("{path}: {} is taken", short(&value)));
            assert!(refused.contains(&name), "{path}: {}: {refused}", short(&value));
        }
    }

    fn bounds(&mut self, path: &str, inside: &[Value], outside: &[Value]) {
        self.takes(path, inside.iter().cloned());
        self.refuses(path, outside.iter().cloned());
    }
}

fn contains(kept: &Value, written: &Value, path: &str) {
    match written {
        Value::Object(members) => members.iter().for_each(|(name, value)| contains(&kept[name], value, path)),
        Value::Array(items) => items.iter().enumerate().for_each(|(at, value)| contains(&kept[at], value, path)),
        other => assert_eq!(kept, other, "{path}"),
    }
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}

fn text(length: usize) -> Value {
    json!("a".repeat(length))
}

fn many(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

fn map(count: usize) -> Value {
    (0..count).map(|at| (format!("k{at}"), json!("v"))).collect::<serde_json::Map<_, _>>().into()
}

fn chain(members: Value) -> Value {
    let mut chain = json!({"name": "c", "rpc": "https://c.example", "chainId": 1, "taskMailboxAddress": ADDRESS});
    for (name, value) in members.as_object().expect("members") {
        chain[name] = value.clone();
    }
    chain
}

/// What both kinds say of an image and how it is pulled, and of profiles.
fn common(env: &mut TestEnv) {
    let spaces = ["", "a b", " a", "a\t", "a\n"].map(|text| json!(text));
    env.bounds("image", &[text(1), text(1024), json!("r.example:5000/a@sha256:0")], &spaces);
    env.refuses("image", [text(1025), json!(5), Value::Null]);
    env.bounds(
        "imagePullPolicy",
        &["Always", "Never", "IfNotPresent"].map(|text| json!(text)),
        &[json!("always"), json!("")],
    );
    let named = |at: usize| json!({"name": format!("s{at}")});
    env.bounds(
        "imagePullSecrets",
        &[json!([]), many(16, named)],
        &[many(17, named), json!([{"name": ""}]), json!(["s"])],
    );
    env.bounds(
        "securityProfile",
        &[json!("restricted"), json!("baseline")],
        &[json!("privileged"), json!("Restricted")],
    );
    let amounts = json!({"requests": {"cpu": "500m", "memory": 5}, "limits": {"a.example/b": "1"}});
    env.bounds("resources", &[json!({}), amounts], &[json!({"requests": {"cpu": "much"}}), json!([])]);
}

/// An address as contracts have it.
fn addresses(env: &mut TestEnv, path: &str, with: impl Fn(Value) -> Value) {
    let digits = |count: usize| format!("0x{}", "a".repeat(count));
    env.takes(path, [digits(40), ADDRESS.to_owned()].map(|address| with(json!(address))));
    let wrong = [
        digits(39),
        digits(41),
        "a".repeat(42),
        format!("0X{}", "a".repeat(40)),
        format!("0x{}g", "a".repeat(39)),
        String::new(),
    ];
    env.refuses(path, wrong.map(|address| with(json!(address))));
}

#[test]
fn bounds_of_a_performer() {
    let mut env = TestEnv::performers();
    common(&mut env);
    addresses(&mut env, "avsAddress", |address| address);
    env.refuses("avsAddress", [Value::Null, json!(5)]);
    env.bounds("version", &[text(0), text(128)], &[text(129)]);
    env.bounds("executorRef", &[text(253)], &[text(254)]);
    env.bounds(
        "config.grpcPort",
        &[json!(1), json!(9090), json!(65535)],
        &[json!(0), json!(-1), json!(65536), json!("9090"), json!(1.5)],
    );
    env.bounds("config.probe", &["grpc", "tcp", "none"].map(|text| json!(text)), &[json!("http"), json!("")]);
    env.bounds("config.command", &[json!([]), json!(["/bin/run", ""])], &[json!("run"), json!([5])]);
    env.bounds("config.args", &[json!([]), json!(["-x"])], &[json!([5])]);
    env.bounds("config.serviceAccountName", &[text(253)], &[text(254)]);
    let scheduling = json!({"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists"}], "runtimeClass": "kata",
        "priorityClassName": "high", "affinity": {"podAffinity": {}}, "nodeAffinity": {}});
    env.takes("scheduling", [json!({}), scheduling, json!({"affinity": {"nodeAffinity": {}}})]);
    env.refuses("scheduling", [json!({"affinity": {"nodeAffinity": {}}, "nodeAffinity": {}})]);
    env.bounds(
        "upgrade.strategy",
        &["Auto", "Surge", "Recreate"].map(|text| json!(text)),
        &[json!("auto"), json!("Rolling")],
    );
    env.bounds("upgrade.progressDeadlineSeconds", &[json!(30), json!(86400)], &[json!(29), json!(-1), json!("600")]);
    env.bounds("upgrade.surgeWaitSeconds", &[json!(0), json!(86400)], &[json!(-1), json!("60")]);
    env.bounds("upgrade.minReadySeconds", &[json!(0), json!(86400)], &[json!(-1), json!("5")]);
    env.bounds("upgrade.drainSeconds", &[json!(0), json!(3600)], &[json!(-1), json!(3601), json!("30")]);
    env.bounds("upgrade.autoRollback", &[json!(true), json!(false)], &[json!("true"), json!(1)]);
}

#[test]
fn bounds_of_the_environment() {
    let mut env = TestEnv::performers();
    env.bounds("config.environment", &[json!({}), map(256)], &[map(257), json!({"A": 5})]);
    for name in ["A", "_a", ".a", "-a", "a.b-c_9"] {
        let value = json!({"secretKeyRef": {"name": "s", "key": "k", "optional": true}});
        env.takes("config.environmentFrom", [json!([{"name": name, "valueFrom": value}])]);
        // A path of the test would split at a dot.
        env.takes("config.environment", [json!({ name: "v" })]);
    }
    for name in ["1A", "A B", "A=B", "Ä", ""] {
        let value = json!({"configMapKeyRef": {"name": "s", "key": "k"}});
        env.refuses("config.environment", [json!({ name: "v" })]);
        env.refuses("config.environmentFrom", [json!([{"name": name, "valueFrom": value}])]);
    }
    let one =
        |at: usize| json!({"name": format!("K{at}"), "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}});
    env.bounds("config.environmentFrom", &[json!([]), many(256, one)], &[many(257, one), many(2, |_| one(0))]);
    for value in [
        json!({}),
        json!({"secretKeyRef": {"name": "s", "key": "k"}, "configMapKeyRef": {"name": "c", "key": "k"}}),
        json!({"secretKeyRef": {"name": "s"}}),
        json!({"secretKeyRef": {"key": "k"}}),
        json!({"configMapKeyRef": {"name": "", "key": "k"}}),
        Value::Null,
    ] {
        env.refuses("config.environmentFrom", [json!([{"name": "A", "valueFrom": value}])]);
    }
    // The same name in both is no mistake of the schema.
    env.spec["config"] = json!({"environment": {"K0": "plain"}});
    env.takes("config.environmentFrom", [many(1, one)]);
}

#[test]
fn bounds_of_hardware() {
    let mut env = TestEnv::performers();
    let field = |name: &str| format!("hardwareRequirements.{name}");
    env.bounds(&field("gpuType"), &[text(128)], &[text(129), json!(5)]);
    env.bounds(&field("gpuCount"), &[json!(0), json!(1024)], &[json!(-1), json!(1025), json!("1"), json!(0.5)]);
    env.bounds(&field("gpuMemoryGiB"), &[json!(1), json!(4096)], &[json!(0), json!(-1), json!("80")]);
    env.bounds(&field("nvlink"), &[json!(true), json!(false)], &[json!("true")]);
    env.bounds(&field("teeRequired"), &[json!(false)], &[json!("false"), json!(true)]);
    let archs = ["amd64", "arm64", "ppc64le", "s390x", "riscv64"].map(|text| json!(text));
    env.bounds(&field("cpuArch"), &archs, &[json!("x86_64"), json!("AMD64"), json!("")]);
    let ways = ["devicePlugin", "dra", "auto"].map(|text| json!(text));
    env.bounds(&field("allocation"), &ways, &[json!("DevicePlugin"), json!("")]);
    env.bounds(&field("customLabels"), &[json!({}), map(64)], &[map(65), json!({"a": 5})]);
    env.spec["hardwareRequirements"] = json!({"gpuType": "a100", "teeType": "tdx"});
    env.bounds(&field("gpuCount"), &[json!(1)], &[json!(0)]);
    env.takes(&field("teeRequired"), [json!(true), json!(false)]);
}

#[test]
fn bounds_of_an_executor() {
    let mut env = TestEnv::executors();
    common(&mut env);
    env.bounds("replicas", &[json!(1), json!(i32::MAX)], &[json!(0), json!(-1), json!("1"), json!(1.5)]);
    env.bounds("config", &[], &[Value::Null, json!({})]);
    env.bounds("config.aggregatorEndpoint", &[text(2048)], &[text(2049), Value::Null, json!("")]);
    env.bounds("config.performerMode", &[json!("docker"), json!("kubernetes")], &[json!("Docker"), json!("local")]);
    env.bounds("config.logLevel", &[json!("a"), text(16)], &[text(17), json!("INFO"), json!(""), json!("info2")]);
    let scheduling = json!({"nodeSelector": {"a": "b"}, "nodeAffinity": {}, "tolerations": [{"operator": "Exists"}], "runtimeClass": "k"});
    env.takes("config.kubernetes", [json!({}), json!({"namespace": "n", "defaultScheduling": scheduling})]);
    env.refuses("config.kubernetes.namespace", [text(64), json!("")]);
    env.bounds("nodeSelector", &[json!({}), map(64)], &[map(65), json!({"a": 1})]);
    let tolerates = json!([{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]);
    env.bounds("tolerations", &[json!([]), tolerates], &[json!({}), json!(["all"])]);
    env.bounds("serviceAccountName", &[text(253)], &[text(254), json!("")]);
    env.refuses("config.operatorKeysSecretRef", [Value::Null, json!({"name": ""})]);
    env.refuses("config.operatorKeys", [json!({"k": "v"})]);
    env.spec["config"].as_object_mut().expect("it is one").remove("operatorKeysSecretRef");
    let named = |name: &str| json!({ name: "KEY" });
    env.takes("config.operatorKeys", [named("a"), named("A.b_c-9"), named(&"a".repeat(200)), map(16)]);
    env.refuses(
        "config.operatorKeys",
        [named(""), named("a/b"), named(" "), named(&"a".repeat(201)), map(17), json!({"k": 5})],
    );
}

#[test]
fn bounds_of_chains() {
    let mut env = TestEnv::executors();
    let one = |at: usize| chain(json!({"name": format!("c{at}")}));
    env.bounds(
        "config.chains",
        &[many(1, one), many(64, one)],
        &[json!([]), many(65, one), many(2, |_| one(0)), Value::Null],
    );
    let with = |name: &str, value: Value| json!([chain(json!({ name: value }))]);
    for (name, inside, outside) in [
        ("name", vec![text(1), text(63), json!("a b~!")], vec![json!(""), text(64), json!("ä"), json!("a\n")]),
        ("rpc", vec![text(1), text(2048)], vec![json!(""), text(2049)]),
        ("chainId", vec![json!(1), json!(i64::MAX)], vec![json!(0), json!(-1), json!("1"), json!(1.5)]),
    ] {
        env.takes("config.chains", inside.into_iter().map(|value| with(name, value)));
        for value in outside {
            let refused = env.asked("config.chains", &with(name, value.clone())).expect_err(&short(&value));
            assert!(refused.contains(name), "{name}: {refused}");
        }
    }
    addresses(&mut env, "config.chains", |address| with("taskMailboxAddress", address));
    for name in ["name", "rpc", "chainId", "taskMailboxAddress"] {
        let mut less = one(0);
        less.as_object_mut().expect("it is one").remove(name);
        let refused = env.asked("config.chains", &json!([less])).expect_err(name);
        assert!(refused.contains(name), "{name}: {refused}");
    }
}

/// Every spelling that can be made of brands, separators and names.
fn spellings() -> Vec<String> {
    let names = [
        "sgx",
        "sgx1",
        "sgx2",
        "sgx3",
        "tdx",
        "sev",
        "seves",
        "sev-es",
        "sev_es",
        "sev es",
        "snp",
        "sevsnp",
        "sev-snp",
        "sev_snp",
        "sev snp",
        "se",
        "secureexecution",
        "secure execution",
        "cca",
        "trustzone",
        "",
    ];
    let mut all = Vec::new();
    for brand in ["", "intel", "amd", "ibm", "arm", "nvidia", "intel-intel"] {
        for separator in ["", "-", "_", " ", "--"] {
            all.extend(names.iter().map(|name| format!("{brand}{separator}{name}")));
        }
    }
    let upper: Vec<String> = all.iter().map(|text| text.to_uppercase()).collect();
    all.extend(upper);
    all
}

#[test]
fn spellings_of_trusted_environments_are_those_of_the_rule_and_each_is_understood() {
    let mut env = TestEnv::performers();
    let pattern = r"^((intel|amd|ibm|arm)[-_])?(sgx[12]?|tdx|sev|sev[-_]?es|snp|sev[-_]?snp|se|cca)$";
    let pattern = regex::Regex::new(pattern).expect("the pattern of the contract");
    let (mut taken, mut stricter) = (0, Vec::new());
    for spelling in spellings() {
        let accepted = env.asked("hardwareRequirements.teeType", &json!(spelling)).is_ok();
        assert_eq!(accepted, pattern.is_match(&spelling.to_lowercase()), "{spelling:?}");
        let understood = parse_tee_type(&spelling).is_ok();
        assert!(understood || !accepted, "{spelling:?} is taken and not understood");
        taken += usize::from(accepted);
        if understood && !accepted {
            stricter.push(spelling.to_lowercase());
        }
    }
    assert!(taken >= 100, "{taken}");
    // What is understood and not taken is written with blanks, more than one separator, a brand that touches the name, or in full.
    let odd = |text: &String| {
        let brands = ["intel", "amd", "ibm", "arm"];
        let touches =
            brands.iter().any(|brand| text.strip_prefix(brand).is_some_and(|rest| !rest.starts_with(['-', '_'])));
        text.contains([' '])
            || text.contains("--")
            || text.starts_with(['-', '_'])
            || text.contains("secureexecution")
            || touches
    };
    assert!(stricter.iter().all(odd), "{stricter:?}");
}

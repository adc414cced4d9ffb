//! What ships of the webhook: manifests ask about what the program answers, at the paths, ports and files where it does, in
//! chart and overlay alike.

use std::collections::{BTreeMap, BTreeSet};

use orlop::k8s::admission::Webhook;
use orlop::k8s::testing::{ApiServer, flow_reviewer};
use serde_json::{Value, json};

use crate::deploy_kubernetes::{base, documents, printed, text};

fn overlay(file: &str) -> Vec<Value> {
    documents(&text(&format!("kustomize/webhook/{file}")))
}

/// Patches of the overlay, by the kind they are for: path and value of each operation.
fn patches() -> BTreeMap<String, Vec<(String, Value)>> {
    let kustomization = overlay("kustomization.yaml").remove(0);
    let patches = kustomization["patches"].as_array().unwrap().iter().map(|patch| {
        let operations: Vec<Value> = serde_saphyr::from_str(patch["patch"].as_str().unwrap()).unwrap();
        let operations = operations.into_iter().map(|operation| {
            assert_eq!(operation["op"], "add");
            (operation["path"].as_str().unwrap().to_owned(), operation["value"].clone())
        });
        (patch["target"]["kind"].as_str().unwrap().to_owned(), operations.collect())
    });
    patches.collect()
}

/// What is added under a path.
fn added(operations: &[(String, Value)], end: &str) -> Vec<Value> {
    operations.iter().filter(|(path, _)| path.ends_with(end)).map(|(_, value)| value.clone()).collect()
}

#[test]
fn configurations_ask_at_the_paths_of_the_program_and_only_those_of_flows_fail_closed() {
    let mut paths = BTreeSet::new();
    let server = ApiServer::new();
    for configuration in overlay("configurations.yaml") {
        server.webhooks(&configuration, &flow_reviewer(Default::default())).expect("an API server takes it");
        let mutates = configuration["kind"] == "MutatingWebhookConfiguration";
        for webhook in configuration["webhooks"].as_array().unwrap() {
            let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap();
            let asked = Webhook::of(path).unwrap();
            assert_eq!(asked == Webhook::Mutate, mutates, "{path}");
            // No controller of performers relies on it.
            let (group, resource, policy) = match asked {
                Webhook::ValidatePerformer => ("hourglass.eigenlayer.io", "performers", "Ignore"),
                _ => ("workflow.kube-zen.io", "jobflows", "Fail"),
            };
            assert_eq!((&webhook["failurePolicy"], &webhook["sideEffects"]), (&json!(policy), &json!("None")));
            let rule = json!([{"apiGroups": [group], "apiVersions": ["v1alpha1"],
                "operations": ["CREATE", "UPDATE"], "resources": [resource], "scope": "Namespaced"}]);
            assert_eq!(webhook["rules"], rule, "statuses are not asked about");
            paths.insert(path.to_owned());
        }
    }
    assert_eq!(paths, Webhook::ALL.map(|webhook| webhook.path().to_owned()).into());
}

#[test]
fn service_port_files_and_network_policy_are_those_of_the_program() {
    let patches = patches();
    let deployment = &patches["Deployment"];
    let mut arguments: Vec<String> = base("deployment.yaml")[0]["spec"]["template"]["spec"]["containers"][0]["args"]
        .as_array()
        .unwrap()
        .iter()
        .chain(&added(deployment, "/args/-"))
        .map(|word| word.as_str().unwrap().to_owned())
        .collect();
    let config = printed(&arguments);
    let port: u16 = config["webhook_addr"].as_str().unwrap().trim_start_matches(':').parse().unwrap();
    assert_eq!(added(deployment, "/ports/-"), [json!({"name": "webhook", "containerPort": port})]);
    assert_eq!(added(&patches["NetworkPolicy"], "/ports/-"), [json!({"port": port, "protocol": "TCP"})]);
    let service = overlay("service.yaml").remove(0);
    assert_eq!(service["spec"]["ports"][0]["targetPort"], "webhook");
    assert_eq!(service["spec"]["selector"], base("service.yaml")[0]["spec"]["selector"]);
    for configuration in overlay("configurations.yaml") {
        let asked = &configuration["webhooks"][0]["clientConfig"]["service"];
        let found =
            [&service["metadata"]["name"], &service["metadata"]["namespace"], &service["spec"]["ports"][0]["port"]];
        assert_eq!([&asked["name"], &asked["namespace"], &asked["port"]], found);
    }
    // The files of the Secret lie where the program reads them, and its group may.
    let (mount, volume) = (added(deployment, "/volumeMounts/-").remove(0), added(deployment, "/volumes/-").remove(0));
    let folder = mount["mountPath"].as_str().unwrap();
    assert_eq!(config["webhook_cert_file"], format!("{folder}/tls.crt"));
    assert_eq!(config["webhook_key_file"], format!("{folder}/tls.key"));
    assert_eq!(
        (&mount["name"], &mount["subPath"]),
        (&volume["name"], &Value::Null),
        "a part of a mount is not renewed"
    );
    let group = &added(deployment, "/securityContext/fsGroup")[0];
    assert_eq!(group, &base("deployment.yaml")[0]["spec"]["template"]["spec"]["securityContext"]["runAsGroup"]);
    let certificate = overlay("certificate.yaml").remove(1);
    assert_eq!(certificate["spec"]["secretName"], volume["secret"]["secretName"]);
    let name = service["metadata"]["name"].as_str().unwrap();
    let namespace = service["metadata"]["namespace"].as_str().unwrap();
    assert!(certificate["spec"]["dnsNames"].as_array().unwrap().contains(&json!(format!("{name}.{namespace}.svc"))));
    // In the words of other controllers of flows the same comes out.
    arguments.retain(|word| !word.starts_with("--webhook-addr"));
    arguments.push("--enable-webhook=true".to_owned());
    let port =
        |config: &Value| config["webhook_addr"].as_str().and_then(|text| text.rsplit(':').next().map(str::to_owned));
    assert_eq!(port(&printed(&arguments)), port(&config));
}

/// A configuration of the chart, with the values that ship in the place of their names.
fn configuration(part: &str, kind: &str, path: &str, values: &Value) -> Value {
    let mut skipped = 0_usize;
    let mut lines = vec!["apiVersion: admissionregistration.k8s.io/v1".to_owned()];
    for line in part.lines().skip(1) {
        // Labels, annotations, bundles and selectors come and go with values.
        let word = line.trim();
        if word.starts_with("{{- if ") || word.starts_with("{{- with ") {
            skipped += 1;
        } else if word == "{{- end }}" {
            if skipped == 0 {
                break;
            }
            skipped -= 1;
        } else if skipped == 0 && !word.starts_with("labels:") {
            let policy = values["webhook"]["failurePolicy"].as_str().unwrap();
            let seconds = values["webhook"]["timeoutSeconds"].to_string();
            let names = [
                ("{{ $kind }}", kind),
                ("{{ $path }}", path),
                ("{{ $.Release.Name }}", "orlop-operator"),
                ("{{ $service }}", "orlop-operator-webhook"),
                ("{{ $.Release.Namespace }}", "orlop-system"),
                ("{{ $.Values.webhook.failurePolicy }}", policy),
                ("{{ $.Values.webhook.timeoutSeconds | int }}", &seconds),
            ];
            lines.push(names.iter().fold(line.to_owned(), |line, (name, value)| line.replace(name, value)));
        }
    }
    let text = lines.join("\n");
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn the_chart_has_the_webhook_of_the_overlay() {
    let chart = text("helm/orlop-operator/templates/webhook.yaml");
    let values: Value = serde_saphyr::from_str(&text("helm/orlop-operator/values.yaml")).unwrap();
    assert_eq!(values["webhook"]["enabled"], false, "it is off until it is asked for");
    // The part that is written for each configuration of flows.
    let loops = chart.lines().find(|line| line.starts_with("{{- range $kind, $path")).unwrap();
    let words: Vec<&str> = loops.split('"').skip(1).step_by(2).collect();
    let mut parts = chart.split("\napiVersion: admissionregistration").skip(1);
    let of_flows = parts.next().unwrap();
    let mut rendered: Vec<Value> =
        words.chunks(2).map(|pair| configuration(of_flows, pair[0], pair[1], &values)).collect();
    let guard = of_flows.trim_end().rsplit("---").nth(1).unwrap();
    assert!(guard.contains("{{- if has \"performer\" .Values.controllers }}"), "it goes with its controller: {guard}");
    rendered.push(configuration(parts.next().unwrap(), "", "", &values));
    let mut wanted = overlay("configurations.yaml");
    for configuration in &mut wanted {
        configuration["metadata"].as_object_mut().unwrap().remove("annotations");
    }
    assert_eq!(rendered, wanted);
    let deployment = text("helm/orlop-operator/templates/deployment.yaml");
    let around = text("helm/orlop-operator/templates/around.yaml");
    for operation in &patches()["Deployment"] {
        let word = match &operation.1 {
            Value::String(word) => format!("- {word}\n"),
            Value::Number(number) => format!("fsGroup: {number}\n"),
            value if value.get("containerPort").is_some() => format!("containerPort: {}}}\n", value["containerPort"]),
            value if value.get("mountPath").is_some() => {
                format!("mountPath: {}, readOnly: true}}\n", value["mountPath"].as_str().unwrap())
            }
            _ => "defaultMode: 0440}\n".to_owned(),
        };
        assert!(deployment.contains(&word), "the chart says {word}");
    }
    let guarded = "{{- if .Values.webhook.enabled }}\n        - {port: 9443, protocol: TCP}\n        {{- end }}\n";
    assert!(around.contains(guarded), "its network policy lets the API server in");
}

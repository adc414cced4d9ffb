//! Makes runnable flows of recorded workflows: `wfcommons FOLDER OUT [SPEED]`.
//!
//! Reads every `*.json` of FOLDER, each `{"name", "tasks": [{"category", "parents": [index], "runtime_s", …}]}`, and writes
//! a JobFlow to OUT in which every task sleeps for its recorded run time divided by SPEED (1000 unless given), and the same as rules
//! for make, to compare with.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use orlop_dag::manifest::{Limits, Options, read};
use serde_json::{Value, json};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (folder, out, speed) = match arguments.as_slice() {
        [folder, out] => (folder, out, 1000.0),
        [folder, out, speed] => (folder, out, speed.parse().context("SPEED is a number")?),
        _ => bail!("usage: wfcommons FOLDER OUT [SPEED]"),
    };
    ensure!(speed > 0.0, "SPEED is greater than 0");
    fs::create_dir_all(out).with_context(|| out.clone())?;
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).with_context(|| folder.clone())?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    ensure!(!files.is_empty(), "{folder} holds no recorded workflow");
    for file in files {
        convert(&file, Path::new(out), speed).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

fn convert(file: &Path, out: &Path, speed: f64) -> Result<()> {
    let record: Value = serde_json::from_slice(&fs::read(file)?)?;
    let name = dns(record["name"].as_str().context("no name")?);
    let tasks = record["tasks"].as_array().context("no tasks")?;
    let names: Vec<String> = tasks
        .iter()
        .enumerate()
        .map(|(n, task)| format!("{}-{n}", dns(task["category"].as_str().unwrap_or("task"))))
        .collect();
    let mut steps = Vec::new();
    let mut rules = format!(".PHONY: all {0}\nall: {0}\n", names.join(" "));
    for (task, name) in tasks.iter().zip(&names) {
        let parents = task["parents"].as_array().map(Vec::as_slice).unwrap_or_default();
        let parents = parents.iter().map(|parent| names.get(usize::try_from(parent.as_u64()?).ok()?));
        let parents: Vec<&String> = parents.collect::<Option<_>>().context("a parent that is not a task")?;
        let seconds = task["runtime_s"].as_f64().context("a task without run time")? / speed;
        let words: Vec<&str> = parents.iter().map(|parent| parent.as_str()).collect();
        rules.push_str(&format!("{name}: {}\n\t@sleep {seconds:.3}\n", words.join(" ")));
        let container = json!({"name": "main", "image": "busybox", "command": ["sleep", format!("{seconds:.3}")]});
        let template = json!({"apiVersion": "batch/v1", "kind": "Job",
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}});
        let mut step = json!({"name": name, "template": template});
        if !parents.is_empty() {
            step["dependencies"] = json!(parents);
        }
        steps.push(step);
    }
    let flow = json!({"apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow",
        "metadata": {"name": &name}, "spec": {"steps": steps}});
    let target = out.join(format!("{name}.yaml"));
    let text = serde_saphyr::to_string(&flow)?;
    read(&target.display().to_string(), text.clone(), &Options::new(Limits::elsewhere()))?;
    fs::write(&target, text)?;
    fs::write(target.with_extension("mk"), rules)?;
    println!("{}: {} steps", target.display(), tasks.len());
    Ok(())
}

/// A text as a name: lower case letters, digits and `-`.
fn dns(text: &str) -> String {
    let kept = text.chars().map(|ch| if ch.is_ascii_alphanumeric() { ch.to_ascii_lowercase() } else { '-' });
    kept.collect::<String>().trim_matches('-').to_owned()
}

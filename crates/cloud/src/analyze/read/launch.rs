//! Options with which programs are launched: over how many cards a model server is spread, which model it serves, what Spark may
//! use. Owns the names of options; runs nothing.

use super::super::fact::{At, Confidence, Finding, PINNED, SOFT, Sink, Strength};
use super::size;

/// GB of card memory for a billion parameters of 16 bits each, with what they need beside.
const GB_OF_BILLION: f64 = 2.4;

/// Judges the words of a command.
pub(super) fn judge(words: &[&str], at: At<'_>, sink: &mut Sink<'_>) {
    let has = |names: &[&str]| words.iter().any(|word| names.iter().any(|name| word.contains(name)));
    let (mut cards, mut billions) = (None, None);
    for (index, word) in words.iter().enumerate() {
        let (option, value) = word.split_once('=').unwrap_or((word, words.get(index + 1).copied().unwrap_or_default()));
        match option {
            "--tensor-parallel-size" | "--tensor_parallel_size" | "--num-shard" | "--num_shard" => {
                cards = value.parse::<u32>().ok();
            }
            "-tp" | "--tp" | "--tp-size" if has(&["vllm", "sglang"]) => cards = value.parse::<u32>().ok(),
            "--nproc_per_node" | "--nproc-per-node" | "--num_gpus" | "--num-gpus" => own_run(value, at, sink),
            "--model" | "--model-id" | "--model-path" | "--model_path" => billions = parameters(value),
            "--driver-memory" => {
                if let Some(gib) = size::gib(value) {
                    sink.add(at, "launch-memory", Finding::Ram(gib), PINNED);
                }
            }
            "--master" => {
                let threads = value.strip_prefix("local[").and_then(|rest| rest.trim_end_matches(']').parse().ok());
                if let Some(threads) = threads {
                    sink.add(at, "launch-cores", Finding::Cores(threads), PINNED);
                }
            }
            _ => {}
        }
    }
    let Some(cards) = cards.filter(|cards| (1..=64).contains(cards)) else { return };
    sink.add(at, "launch-cards", Finding::Gpu(None), SOFT);
    sink.add(at, "launch-cards", Finding::GpuCount(cards), PINNED);
    if let Some(billions) = billions {
        let small = if has(&["awq", "gptq", "int4", "4bit"]) { 0.3 } else { 1.0 };
        let each = (billions * GB_OF_BILLION * small / f64::from(cards)).ceil().clamp(1.0, 288.0) as u32;
        sink.add(at, "launch-cards", Finding::Vram(each), SOFT);
    }
}

/// Processes of a training, one on each card: what somebody's own run had.
fn own_run(value: &str, at: At<'_>, sink: &mut Sink<'_>) {
    if let Some(count) = value.parse::<u32>().ok().filter(|count| (1..=64).contains(count)) {
        sink.add(at, "launch-processes", Finding::GpuCount(count), (Strength::Target, Confidence::Vague));
    }
}

/// Billions of parameters by the name of a model: `Llama-3.1-70B-Instruct`, `Mixtral-8x22B`.
fn parameters(name: &str) -> Option<f64> {
    let small = name.to_ascii_lowercase();
    let parts = small.split(['-', '_', '/', ':']);
    let counts = parts.filter_map(|part| {
        let part = part.strip_suffix('b')?;
        match part.split_once('x') {
            // Its experts share the rest.
            Some((experts, each)) => Some(experts.parse::<f64>().ok()? * each.parse::<f64>().ok()? * 0.8),
            None => part.parse::<f64>().ok(),
        }
    });
    counts.filter(|billions| (0.1..=2000.0).contains(billions)).reduce(f64::max)
}

/// The words of a command that is written as a list in JSON, or as it is typed.
pub(super) fn words(command: &str) -> Vec<&str> {
    command.split(|ch: char| ch.is_whitespace() || "[]\",'".contains(ch)).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_tell_their_size_by_name() {
        let of = |name: &str| parameters(name).map(|billions| (billions * 10.0).round() as u32);
        assert_eq!(of("meta-llama/Llama-3.1-70B-Instruct"), Some(700));
        assert_eq!(of("mistralai/Mixtral-8x22B-Instruct-v0.1"), Some(1408));
        assert_eq!(of("Qwen/Qwen2.5-0.5B"), Some(5));
        assert_eq!((of("gpt2"), of("bert-base")), (None, None));
    }
}

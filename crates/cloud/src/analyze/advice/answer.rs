//! Answers as values: text to JSON, JSON to what it says. Owns the tolerance, which is
//! small and written down here, and the faults that are sent back. Never panics and never trusts: bounds are kept by `merge`.

use orlop_core::ports::advisor::MAX_REPLY;
use serde_json::{Map, Value};

use super::Point;
use super::schema::{self, MAX_CANDIDATES, MAX_ITEMS, QUOTE_CHARS, REASONING_CHARS, SPECIAL_CHARS};
use crate::analyze::fact::visible;
use crate::scrub::scrubbed;

/// A line that an answer points to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quoted {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// What is said to stand there.
    pub quote: String,
}

/// What an answer says the machine must have. Numbers that are none, zero or less are nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advised {
    /// Hardware threads.
    pub cores: Option<u32>,
    /// Memory in GiB.
    pub ram_gib: Option<u32>,
    /// Disk in GB.
    pub disk_gb: Option<u32>,
    /// Whether a GPU is needed.
    pub gpu: bool,
    /// Cards.
    pub gpu_count: Option<u32>,
    /// Memory of one card in GB.
    pub gpu_memory_gb: Option<u32>,
    /// Whether CUDA is needed.
    pub cuda: bool,
    /// The system, in lower case.
    pub os_type: Option<String>,
    /// Its version.
    pub os_version: Option<String>,
    /// Which Python.
    pub python: Option<String>,
    /// What people should read; quoted, never interpreted.
    pub special: Vec<String>,
    /// Where that stands.
    pub evidence: Vec<Quoted>,
    /// Why; quoted, never interpreted.
    pub reasoning: String,
}

/// An image, as an answer names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// By its index.
    Index(usize),
    /// By its name, in lower case and without an id behind it.
    Name(String),
}

/// An answer that has its form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// What the machine must have.
    Requirements(Box<Advised>),
    /// Images that come into question, the best first.
    ImageCandidates(Vec<Pick>),
    /// The image that is taken; nothing if the answer names none.
    FinalImage(Option<Pick>),
    /// Hours; nothing if the answer gives none.
    Duration(Option<u32>),
}

/// Reads an answer.
///
/// # Errors
/// What is wrong with its form, at most ten sentences that hold nothing of the answer's text but names of keys.
pub fn read(point: Point, text: &str) -> Result<Answer, Vec<String>> {
    let members = object(text).map_err(|fault| vec![fault])?;
    let mut faults = Vec::new();
    let keys = schema::keys(point);
    for key in keys.iter().filter(|key| !members.contains_key(key.as_str())) {
        faults.push(format!("the key `{key}` is missing"));
    }
    let strange = members.keys().filter(|key| !keys.contains(key)).count();
    if strange > 0 {
        faults.push(format!("{strange} keys are not in the schema; there are: {}", keys.join(", ")));
    }
    let reading = AnswerReader { members: &members, faults };
    reading.answer(point)
}

struct AnswerReader<'a> {
    members: &'a Map<String, Value>,
    faults: Vec<String>,
}

impl AnswerReader<'_> {
    fn answer(mut self, point: Point) -> Result<Answer, Vec<String>> {
        let answer = match point {
            Point::Requirements => Answer::Requirements(Box::new(self.requirements())),
            Point::ImageCandidates => Answer::ImageCandidates(self.candidates()),
            Point::FinalImage => Answer::FinalImage(self.selected()),
            Point::Duration => Answer::Duration(self.hours()),
        };
        self.faults.truncate(10);
        if self.faults.is_empty() { Ok(answer) } else { Err(self.faults) }
    }

    fn requirements(&mut self) -> Advised {
        Advised {
            cores: self.number("cpu_cores"),
            ram_gib: self.number("ram_gb"),
            disk_gb: self.number("disk_gb"),
            gpu: self.switch("gpu_required"),
            gpu_count: self.number("gpu_count"),
            gpu_memory_gb: self.number("gpu_memory_gb"),
            cuda: self.switch("cuda_required"),
            os_type: self.word("os_type").map(|word| word.to_lowercase()),
            os_version: self.word("os_version"),
            python: self.word("python_version"),
            special: self.special(),
            evidence: self.evidence(),
            reasoning: self.word("reasoning").map(|text| words(&text, REASONING_CHARS)).unwrap_or_default(),
        }
    }

    fn wrong(&mut self, key: &str, wanted: &str) {
        // A missing key has its own fault.
        if self.members.contains_key(key) {
            self.faults.push(format!("`{key}` must be {wanted}"));
        }
    }

    /// A number of at least 1, rounded up; text, null, zero and less are nothing.
    fn number(&mut self, key: &str) -> Option<u32> {
        match self.members.get(key) {
            Some(Value::Number(number)) => number.as_f64().and_then(whole).filter(|number| *number > 0),
            Some(Value::Null | Value::String(_)) => None,
            _ => {
                self.wrong(key, "an integer or null");
                None
            }
        }
    }

    fn switch(&mut self, key: &str) -> bool {
        match self.members.get(key) {
            Some(Value::Bool(value)) => *value,
            _ => {
                self.wrong(key, "true or false");
                false
            }
        }
    }

    /// Text; a number is taken as it is written.
    fn word(&mut self, key: &str) -> Option<String> {
        match self.members.get(key) {
            Some(Value::String(text)) if key == "reasoning" => Some(text.clone()),
            Some(Value::String(text)) => Some(words(text, 40)).filter(|text| !text.is_empty()),
            Some(Value::Number(number)) if key != "reasoning" => Some(number.to_string()),
            Some(Value::Null) if key != "reasoning" => None,
            _ => {
                self.wrong(key, if key == "reasoning" { "text" } else { "text or null" });
                None
            }
        }
    }

    fn list(&mut self, key: &str) -> Vec<Value> {
        match self.members.get(key) {
            Some(Value::Array(items)) => items.iter().take(MAX_ITEMS).cloned().collect(),
            _ => {
                self.wrong(key, "a list");
                Vec::new()
            }
        }
    }

    fn special(&mut self) -> Vec<String> {
        let items = self.list("special_requirements");
        if items.iter().any(|item| !item.is_string()) {
            self.wrong("special_requirements", "a list of texts");
        }
        let texts = items.iter().filter_map(Value::as_str).map(|text| words(text, SPECIAL_CHARS));
        texts.filter(|text| !text.is_empty()).collect()
    }

    fn evidence(&mut self) -> Vec<Quoted> {
        let items = self.list("evidence");
        let one = |item: &Value| {
            let text = |key: &str, most: usize| Some(item.get(key)?.as_str()?.chars().take(most).collect::<String>());
            let line = item.get("line").and_then(Value::as_f64).and_then(whole)?;
            Some(Quoted { file: text("file", 1024)?, line, quote: text("quote", QUOTE_CHARS)? })
        };
        let found: Vec<Quoted> = items.iter().filter_map(one).collect();
        if found.len() < items.len() {
            self.wrong("evidence", "a list of objects with `file`, `line` and `quote`");
        }
        found
    }

    fn candidates(&mut self) -> Vec<Pick> {
        self.word("reasoning");
        let items = self.list("candidates");
        let picks: Vec<Pick> = items.iter().filter_map(pick).collect();
        if self.members.contains_key("candidates") && picks.is_empty() {
            self.wrong("candidates", &format!("a list of 1 to {MAX_CANDIDATES} indexes"));
        }
        picks
    }

    fn selected(&mut self) -> Option<Pick> {
        self.word("reasoning");
        let selected = self.members.get("selected").and_then(pick);
        if selected.is_none() {
            self.wrong("selected", "an index");
        }
        selected
    }

    /// Hours: a number or the leading number of a text, rounded up; null is nothing.
    fn hours(&mut self) -> Option<u32> {
        self.word("reasoning");
        match self.members.get("duration_hours") {
            Some(Value::Null) => None,
            // Below 1 is 1: a lease has at least one hour.
            Some(Value::Number(number)) => number.as_f64().and_then(whole).map(|hours| hours.max(1)),
            Some(Value::String(text)) => match leading_number(text) {
                Some(hours) => whole(hours).map(|hours| hours.max(1)),
                None => {
                    self.wrong("duration_hours", "an integer");
                    None
                }
            },
            _ => {
                self.wrong("duration_hours", "an integer");
                None
            }
        }
    }
}

/// A number rounded up, within what 32 bits hold.
fn whole(number: f64) -> Option<u32> {
    if number.is_nan() {
        return None;
    }
    // The bounds are exact in both types.
    Some(number.ceil().clamp(0.0, f64::from(u32::MAX)) as u32)
}

fn leading_number(text: &str) -> Option<f64> {
    let text = text.trim();
    let end = text.find(|ch: char| !(ch.is_ascii_digit() || ch == '.' || ch == '-')).unwrap_or(text.len());
    text.get(..end)?.trim_end_matches('.').parse().ok()
}

fn pick(value: &Value) -> Option<Pick> {
    match value {
        Value::Number(number) => {
            let index = number.as_f64().filter(|index| *index >= 0.0 && index.fract() == 0.0)?;
            Some(Pick::Index(whole(index)? as usize))
        }
        Value::String(name) => {
            let name: String = name.chars().take(300).collect::<String>().to_lowercase();
            let name = name.split(" (id:").next().unwrap_or_default().trim();
            (!name.is_empty()).then(|| Pick::Name(name.to_owned()))
        }
        _ => None,
    }
}

/// Words for people: one line, no control characters, no secrets, bounded.
fn words(text: &str, most: usize) -> String {
    let clean = scrubbed(&visible(&text.chars().take(most * 4).collect::<String>()));
    clean.chars().take(most).collect::<String>().trim().to_owned()
}

/// The object of a text: as it is, else in the first fenced block, else the first one whose brackets match.
fn object(text: &str) -> Result<Map<String, Value>, String> {
    let end = (0..=MAX_REPLY.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let text = text.get(..end).unwrap_or_default().trim();
    let found = fenced(text).and_then(balanced).or_else(|| balanced(text));
    let found = found.ok_or_else(|| "the answer holds no JSON object".to_owned())?;
    let strict = without_trailing_commas(found);
    match serde_json::from_str(&strict) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err("the answer is not valid JSON".to_owned()),
    }
}

/// The text within the first fence.
fn fenced(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("```")?;
    let (_, body) = rest.split_once('\n')?;
    Some(body.split("```").next().unwrap_or(body))
}

/// The first object whose brackets match.
fn balanced(text: &str) -> Option<&str> {
    let start = text.find('{')?;
    let (mut depth, mut within, mut escaped) = (0_u32, false, false);
    for (at, byte) in text.bytes().enumerate().skip(start) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if within => escaped = true,
            b'"' => within = !within,
            b'{' if !within => depth += 1,
            b'}' if !within => {
                depth -= 1;
                if depth == 0 {
                    return text.get(start..=at);
                }
            }
            _ => {}
        }
    }
    None
}

/// JSON without commas before closing brackets.
fn without_trailing_commas(text: &str) -> String {
    let (mut out, mut within, mut escaped) = (String::with_capacity(text.len()), false, false);
    for ch in text.chars() {
        match ch {
            _ if escaped => escaped = false,
            '\\' if within => escaped = true,
            '"' => within = !within,
            '}' | ']' if !within => {
                let kept = out.trim_end();
                if kept.ends_with(',') {
                    out.truncate(kept.len() - 1);
                }
            }
            _ => {}
        }
        out.push(ch);
    }
    out
}

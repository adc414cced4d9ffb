//! From an address to what a machine must have.

use orlop_cloud::analyze::{Analysis, analyze};
use orlop_cloud::llm::{self, AdvisorSession};
use orlop_cloud::repository::git::{self, Options};
use orlop_cloud::repository::{FetchError, Scan, Source, folder};
use orlop_core::error::Problem;

/// Which repository is looked at, and how it may be had.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// From where.
    pub source: Source,
    /// Branch, tag or commit.
    pub reference: String,
    /// The folder within, or nothing for the top.
    pub subdir: String,
    /// A secret that https servers get.
    pub token: Option<String>,
    /// Limits and the place of the fetch.
    pub options: Options,
}

/// What is known of a repository.
#[derive(Debug, Clone)]
pub struct RepositoryAnalysis {
    /// What was read of it.
    pub scan: Scan,
    /// What the rules found.
    pub rules: Analysis,
    /// The same after advice.
    pub analysis: Analysis,
    /// Names of the fields that advice changed.
    pub advised: Vec<&'static str>,
}

/// Reads a repository, under limits. Nothing of it is executed or left behind.
///
/// # Errors
/// It is refused, or cannot be had.
pub async fn obtain(wanted: &Wanted) -> Result<Scan, FetchError> {
    if let Source::Folder(path) = &wanted.source {
        return folder::scan(path, &wanted.subdir).await;
    }
    let request = git::Request {
        source: wanted.source.clone(),
        reference: wanted.reference.clone(),
        subdir: wanted.subdir.clone(),
        token: wanted.token.clone(),
    };
    git::fetch(&request, &wanted.options).await
}

/// Analyses what was read, by rules and then with advice.
///
/// # Errors
/// Fatal when the system has no randomness and advice is asked for.
pub async fn analyze_repository(scan: Scan, advisor: &mut AdvisorSession<'_>) -> Result<RepositoryAnalysis, Problem> {
    let rules = analyze(&scan);
    if !advisor.is_on() {
        return Ok(RepositoryAnalysis { scan, analysis: rules.clone(), rules, advised: Vec::new() });
    }
    let merged = llm::requirements(advisor, &scan, &rules, &llm::marker()?).await;
    let analysis = Analysis { requirements: merged.requirements, notes: merged.notes, facts: rules.facts.clone() };
    Ok(RepositoryAnalysis { scan, rules, analysis, advised: merged.used })
}

//! From what a machine must have to a plan, with advice on the duration and the image. Owns the order of questions, and that
//! advice never leaves a user with less than the rules alone would give.

use jiff::Timestamp;
use orlop_cloud::analyze::Analysis;
use orlop_cloud::catalog::image::Image;
use orlop_cloud::llm::{self, AdvisorSession};
use orlop_cloud::provision::plan::{Plan, PlanError, PlannedOffering, Request, World, admissible_images, plan};
use orlop_core::error::Problem;

use super::RepositoryAnalysis;

/// What a plan is made of, beside the repository.
#[derive(Debug, Clone, Copy)]
pub struct PlanInput<'a> {
    /// What is known of the sites.
    pub world: World<'a>,
    /// What the user says.
    pub request: &'a Request,
    /// `--min-duration`: how far the lease may be shortened to find a free window.
    pub least_hours: Option<u32>,
    /// The time.
    pub now: Timestamp,
}

/// Makes a plan.
///
/// # Errors
/// Outside, the system has no randomness for advice; inside, there is no plan.
pub async fn make_plan(
    survey: &RepositoryAnalysis,
    input: &PlanInput<'_>,
    advisor: &mut AdvisorSession<'_>,
) -> Result<Result<Plan, PlanError>, Problem> {
    let mut request = Request { waits: false, ..input.request.clone() };
    if advisor.is_on() && request.hours.is_none() {
        request.advised_hours = llm::hours(advisor, &survey.analysis, input.now, &llm::marker()?).await;
    }
    let (analysis, found) = advised_or_not(survey, input, &request);
    let first = match found {
        Ok(plan) => plan,
        refused => return Ok(with_taken(analysis, input, &request, refused)),
    };
    let offered: Vec<&Image> = admissible_images(&first, analysis, &input.world, &request);
    if advisor.is_on() && offered.len() > 1 {
        let order = llm::images(advisor, &analysis.requirements, &offered, &llm::marker()?).await;
        request.preferred_images =
            order.iter().filter_map(|index| offered.get(*index)).map(|image| image.id.clone()).collect();
        if let Ok(mut better) = shortened(analysis, input, &request) {
            better.notes = first.notes;
            return Ok(with_taken(analysis, input, &request, Ok(better)));
        }
    }
    Ok(with_taken(analysis, input, &request, Ok(first)))
}

/// The plan with what is taken at the moment behind the rest, if it is waited for; without the rest, where everything is.
fn with_taken(
    analysis: &Analysis,
    input: &PlanInput<'_>,
    request: &Request,
    found: Result<Plan, PlanError>,
) -> Result<Plan, PlanError> {
    let hours = match &found {
        _ if !input.request.waits => return found,
        Ok(plan) => Some(plan.hours),
        Err(PlanError::Taken { .. }) => request.hours,
        Err(_) => return found,
    };
    let all = plan(analysis, &input.world, &Request { waits: true, hours, ..request.clone() });
    match (found, all) {
        (Ok(mut plan), Ok(all)) => {
            plan.offerings.extend(all.offerings.into_iter().filter(PlannedOffering::is_taken));
            Ok(plan)
        }
        (Err(_), all) => all,
        (plan, Err(_)) => plan,
    }
}

/// The plan with advice; where nothing has what is advised, the plan by rules.
fn advised_or_not<'s>(
    survey: &'s RepositoryAnalysis,
    input: &PlanInput<'_>,
    request: &Request,
) -> (&'s Analysis, Result<Plan, PlanError>) {
    let found = shortened(&survey.analysis, input, request);
    if survey.advised.is_empty() || found.is_ok() {
        return (&survey.analysis, found);
    }
    match shortened(&survey.rules, input, request) {
        Ok(mut by_rules) => {
            by_rules.notes.push("nothing matches the advice: only the rules are used".to_owned());
            (&survey.rules, Ok(by_rules))
        }
        // What is missing also without advice is what the user has to know.
        Err(error) => (&survey.rules, Err(error)),
    }
}

/// The plan, with a shorter lease if only that is free and the user allows it.
fn shortened(analysis: &Analysis, input: &PlanInput<'_>, request: &Request) -> Result<Plan, PlanError> {
    let refused = match plan(analysis, &input.world, request) {
        Err(error @ PlanError::Taken { .. }) => error,
        other => return other,
    };
    let Some(least) = input.least_hours else { return Err(refused) };
    let whole = request.hours.or(request.advised_hours).or(analysis.requirements.duration_hours.target).unwrap_or(24);
    let (mut least, mut most, mut found) = (least.max(1), whole, None);
    while least < most {
        let middle = least.midpoint(most);
        match plan(analysis, &input.world, &Request { hours: Some(middle), ..request.clone() }) {
            Ok(plan) => (found, least) = (Some(plan), middle + 1),
            Err(_) => most = middle,
        }
    }
    let mut plan = found.ok_or(refused)?;
    plan.notes.push(format!("shortened from {whole} h to {} h, which is free", plan.hours));
    Ok(plan)
}

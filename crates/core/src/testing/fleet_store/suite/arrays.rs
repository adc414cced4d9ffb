//! Checks of arrays: ranges, elements, what is restored of them.

use super::{array, at, id, lead, new_job, new_spec, restored, unit, write};
use crate::error::Class;
use crate::id::Epoch;
use crate::machine::job::JobState;
use crate::ports::fleet_store::{
    ElementChange, ElementFilter, ElementRow, ElementSpan, FleetStore, Page, RangeChange, Record, Spans, TaskStatus,
};
use crate::testing::suite::{Broken, CheckResult, fails, same};

fn element(index: u32, state: JobState) -> Record {
    let assigned = TaskStatus { attempt: 1, epoch: Epoch(1), answered: state.is_terminal(), ..unit(state) };
    Record::Element(Box::new(ElementChange { job: id(1), index, unit: assigned }))
}

fn range(first: u32, last: u32, state: JobState) -> Record {
    let reason = Some("cancelled".into());
    Record::Ranges(RangeChange { job: id(1), first, last, state, reason, at: at(7) })
}

fn span(first: u32, last: u32, state: JobState, attempt: u32) -> ElementSpan {
    let epoch = Epoch(u64::from(attempt));
    ElementSpan { first, last, state, attempt, epoch, answered: attempt > 0 }
}

async fn spans<S: FleetStore>(store: &S) -> Result<Spans, Broken> {
    let mut all = restored(store).await?;
    same("what is restored", &all.len(), &1)?;
    Ok(all.remove(0).elements)
}

async fn with_array<S: FleetStore>(store: &S, indices: &[(u32, u32)]) -> Result<Epoch, Broken> {
    let epoch = lead(store).await?;
    write(store, epoch, vec![new_spec(), new_job(array(1, indices))]).await?;
    Ok(epoch)
}

pub(super) async fn a_new_array_waits<S: FleetStore>(store: &S) -> CheckResult {
    with_array(store, &[(0, 99), (200, 200), (u32::MAX - 1, u32::MAX)]).await?;
    let wanted = array(1, &[(0, 99), (200, 200), (u32::MAX - 1, u32::MAX)]);
    same("the row", &store.job(id(1)).await?, &Some(wanted))?;
    same("what waits", &spans(store).await?.waiting, &vec![(0, 99), (200, 200), (u32::MAX - 1, u32::MAX)])
}

pub(super) async fn elements_come_back_by_state<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_array(store, &[(0, 9)]).await?;
    write(store, epoch, (0..4).map(|index| element(index, JobState::Running)).collect()).await?;
    write(store, epoch, vec![element(0, JobState::Completed), element(1, JobState::Completed)]).await?;
    write(store, epoch, vec![element(3, JobState::Failed), element(3, JobState::Completed)]).await?;
    let found = spans(store).await?;
    same("what waits", &found.waiting, &vec![(4, 9)])?;
    same("what is done", &found.done, &vec![span(0, 1, JobState::Completed, 1), span(3, 3, JobState::Completed, 1)])?;
    let live = ElementRow { index: 2, unit: TaskStatus { attempt: 1, epoch: Epoch(1), ..unit(JobState::Running) } };
    same("what lives", &found.live, &vec![live])
}

pub(super) async fn ranges_change_what_was_never_assigned_only<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_array(store, &[(0, 9), (20, 29)]).await?;
    let records =
        vec![element(5, JobState::Running), range(4, 24, JobState::Cancelled), range(24, 26, JobState::Failed)];
    write(store, epoch, records).await?;
    let found = spans(store).await?;
    same("what waits", &found.waiting, &vec![(0, 3), (27, 29)])?;
    let wanted = vec![
        span(4, 4, JobState::Cancelled, 0),
        span(6, 9, JobState::Cancelled, 0),
        span(20, 23, JobState::Cancelled, 0),
        span(24, 26, JobState::Failed, 0),
    ];
    same("what is done", &found.done, &wanted)?;
    same("what lives", &found.live.iter().map(|row| row.index).collect::<Vec<_>>(), &vec![5])?;
    let nobody = RangeChange { job: id(2), first: 0, last: 1, state: JobState::Failed, reason: None, at: at(0) };
    fails("a range of no job", write(store, epoch, vec![Record::Ranges(nobody)]).await, Class::Invalid)
}

pub(super) async fn elements_are_listed_with_those_never_assigned<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_array(store, &[(0, 3), (8, 9)]).await?;
    write(store, epoch, vec![range(2, 3, JobState::Cancelled), element(1, JobState::Running)]).await?;
    let page = store.elements(id(1), &ElementFilter::default(), &Page::first(4)).await?;
    let states: Vec<_> = page.items.iter().map(|row| (row.index, row.unit.state)).collect();
    use JobState::{Cancelled, Queued, Running};
    same("the first page", &states, &vec![(0, Queued), (1, Running), (2, Cancelled), (3, Cancelled)])?;
    same("the reason", &page.items.last().and_then(|row| row.unit.reason.clone()), &Some("cancelled".into()))?;
    same("the time", &page.items.last().and_then(|row| row.unit.finished_at), &Some(at(7)))?;
    let page = store.elements(id(1), &ElementFilter::default(), &Page::after(3, 4)).await?;
    same("the rest", &page.items.iter().map(|row| row.index).collect(), &vec![8, 9])?;
    same("the cursor", &page.next, &None)
}

pub(super) async fn elements_are_listed_by_state_and_page<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_array(store, &[(0, 999_999)]).await?;
    let ended =
        (0..100).map(|index| element(index * 3, if index % 2 == 0 { JobState::Failed } else { JobState::Completed }));
    write(store, epoch, ended.collect()).await?;
    let filter = ElementFilter { states: vec![JobState::Failed], ..ElementFilter::default() };
    let page = store.elements(id(1), &filter, &Page::after(6, 2)).await?;
    same("failed ones", &page.items.iter().map(|row| row.index).collect(), &vec![12, 18])?;
    same("the cursor", &page.next, &Some(18))?;
    let filter = ElementFilter { states: vec![JobState::Queued], ..ElementFilter::default() };
    let page = store.elements(id(1), &filter, &Page::after(295, 3)).await?;
    same("waiting ones", &page.items.iter().map(|row| row.index).collect(), &vec![296, 298, 299])
}

pub(super) async fn elements_are_listed_by_index<S: FleetStore>(store: &S) -> CheckResult {
    let epoch = with_array(store, &[(0, 99_999)]).await?;
    write(store, epoch, (0..3000).map(|index| element(index, JobState::Completed)).collect()).await?;
    write(store, epoch, vec![element(7, JobState::Failed), element(50_001, JobState::Failed)]).await?;
    let indices = |text: &str| text.parse().map(Some).unwrap_or_default();
    let filter = ElementFilter { indices: indices("5-8,2999-3001,50000-50001,200000"), ..ElementFilter::default() };
    let page = store.elements(id(1), &filter, &Page::first(100)).await?;
    let found: Vec<u32> = page.items.iter().map(|row| row.index).collect();
    same("what was asked for", &found, &vec![5, 6, 7, 8, 2999, 3000, 3001, 50_000, 50_001])?;
    same("the cursor", &page.next, &None)?;
    let page = store.elements(id(1), &filter, &Page::after(7, 3)).await?;
    same("a page of it", &page.items.iter().map(|row| row.index).collect(), &vec![8, 2999, 3000])?;
    same("its cursor", &page.next, &Some(3000))?;
    let assigned = ElementFilter { assigned: true, ..filter.clone() };
    let page = store.elements(id(1), &assigned, &Page::first(100)).await?;
    same("once assigned", &page.items.iter().map(|row| row.index).collect(), &vec![5, 6, 7, 8, 2999, 50_001])?;
    let filter = ElementFilter { states: vec![JobState::Failed], ..filter };
    let page = store.elements(id(1), &filter, &Page::first(100)).await?;
    same("by state", &page.items.iter().map(|row| row.index).collect(), &vec![7, 50_001])
}

pub(super) async fn elements_are_counted_by_state<S: FleetStore>(store: &S) -> CheckResult {
    use JobState::{Cancelled, Completed, Failed, Queued, Running};
    let epoch = with_array(store, &[(0, 99), (200, 209)]).await?;
    let counts = async || store.element_counts(&[id(1), id(9)].into()).await;
    same("a new array", &counts().await?, &[(id(1), [(Queued, 110)].into())].into())?;
    write(store, epoch, (0..20).map(|index| element(index, Completed)).collect()).await?;
    write(store, epoch, vec![element(3, Failed), element(30, Running), element(205, Completed)]).await?;
    write(store, epoch, vec![range(25, 34, Cancelled), range(204, 250, Cancelled), range(34, 35, Failed)]).await?;
    let wanted = [(Completed, 20), (Failed, 3), (Running, 1), (Cancelled, 13), (Queued, 73)].into();
    same("each state", &counts().await?, &[(id(1), wanted)].into())
}

pub(super) async fn a_large_array_is_one_row<S: FleetStore>(store: &S) -> CheckResult {
    with_array(store, &[(0, 9_999_999)]).await?;
    same("what waits", &spans(store).await?.waiting, &vec![(0, 9_999_999)])?;
    let page = store.elements(id(1), &ElementFilter::default(), &Page::after(9_999_990, 100)).await?;
    same("the last elements", &page.items.len(), &9)
}

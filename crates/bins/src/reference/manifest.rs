//! The pages of what users write: flows, pipelines, jobs, performers and executors.

use orlop_core::schema;
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::job::JobSpec;
use orlop_dag::manifest::pipeline;
use orlop_k8s::hourglass::spec::{ExecutorSpec, PerformerSpec};

use super::Page;
use super::schemas::Schemas;

#[test]
fn the_pages_of_manifests_are_those_of_the_types() {
    let intro = "The fields of a `JobFlow`, in YAML or JSON. `orlop flow validate FILE` checks a file against them and against the \
        [rules](../rules/flows.md);\n`orlop schema flow` prints them for editors. The template of a step is a `batch/v1` Job: its fields are those of \
        Kubernetes.\nAn example is [tour.yaml](../../examples/flows/tour.yaml).";
    let mut page = Page::new("flow.md", "JobFlow", intro);
    Schemas::of("JobFlow", &schema::of::<JobFlow>()).describe(&mut page, 2, &["JobFlow"]);
    page.compare();

    let intro = "The short form of a flow, for steps that are plain commands. `orlop schema pipeline` prints the fields for editors.\n\
        An example is [pipeline.yaml](../../examples/flows/pipeline.yaml).";
    let mut page = Page::new("pipeline.md", "Pipeline", intro);
    Schemas::of("Pipeline", &pipeline::schema()).describe(&mut page, 2, &["Pipeline"]);
    page.compare();

    let intro = "A job of a fleet, as `POST /jobs` takes it; the options of [`orlop submit`](commands-fleet.md#orlop-submit) fill the same fields.\n\
        `orlop schema job` prints them for editors.";
    let mut page = Page::new("job.md", "Job of a fleet", intro);
    Schemas::of("Job", &schema::of::<JobSpec>()).describe(&mut page, 2, &["Job"]);
    page.compare();

    let intro = "The `spec` of a `Performer`: a server on special hardware, kept running by the operator. What its fields mean together is in its\n\
        [rules](../rules/performers.md); [how to run one](../how-to/performers-and-executors.md).";
    let mut page = Page::new("performer.md", "Performer", intro);
    Schemas::of("Performer", &schema::of::<PerformerSpec>()).describe(&mut page, 2, &["Performer"]);
    page.compare();

    let intro = "The `spec` of a `HourglassExecutor`: the programs that give performers their work, kept running by the operator. What its fields\n\
        mean together is in its [rules](../rules/executors.md); [how to run one](../how-to/performers-and-executors.md).";
    let mut page = Page::new("executor.md", "HourglassExecutor", intro);
    Schemas::of("HourglassExecutor", &schema::of::<ExecutorSpec>()).describe(&mut page, 2, &["HourglassExecutor"]);
    page.compare();
}

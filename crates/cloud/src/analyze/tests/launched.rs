//! Repositories that say how their programs are launched: scripts of batch managers, model servers, Spark, Ray.

use super::expect;

#[test]
fn directives_of_batch_scripts_say_what_one_machine_has() {
    let script =
        "#!/bin/bash\n#SBATCH -N 1 -c 64 --mem=500G\n#SBATCH --gres=gpu:4\n#SBATCH -t 3-00:00:00\nsrun ./sim\n";
    let make = "all:\n\tgcc -fopenmp -o sim sim.c\n";
    expect("slurm", &[("run.sbatch", script), ("Makefile", make)], "gpu cards=4 cores=64 ram=500..512 hours=72..120");
    let tasks = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=32\n#SBATCH --gres=gpu:a100:4\n#SBATCH --mem=256G\n#SBATCH --time=48:00:00\nsrun lmp -in in.melt\n";
    expect("named cards", &[("job.slurm", tasks)], "gpu cards=4 vram=40 cores=32 ram=256..384 hours=48..80");
    let each = "#!/bin/sh\n#SBATCH --ntasks=16\n#SBATCH --cpus-per-task=2\n#SBATCH --mem-per-cpu=4G\n./a\n";
    expect("memory of each thread", &[("submit.sh", each)], "cores=32 ram=128 cpu");
    let pbs = "#PBS -l select=1:ncpus=24:mem=96gb:ngpus=2\n#PBS -l walltime=12:00:00\n./a\n";
    expect("pbs", &[("job.pbs", pbs)], "gpu cards=2 cores=24 ram=96 hours=12..24");
    let plain = "#!/bin/sh\nset -e\necho SBATCH\n";
    expect("no script of a batch manager", &[("run.sh", plain), ("main.py", "import numpy\n")], "cpu");
}

#[test]
fn a_job_over_several_machines_says_so() {
    let script = "#SBATCH --nodes=4 --ntasks-per-node=8\nsrun ./a\n";
    let analysis = super::analysed(&[("run.sbatch", script)]);
    let special = analysis.requirements.special_requirements.target.unwrap();
    assert_eq!(special, ["4 machines at once, by run.sbatch: one is planned"]);
}

#[test]
fn model_servers_that_are_spread_over_cards_want_as_many() {
    let docker = "FROM vllm/vllm-openai:v0.6.3\nCMD [\"--tensor-parallel-size\",\"4\",\"--model\",\"meta-llama/Llama-3.1-70B-Instruct\"]\n";
    expect("dockerfile", &[("Dockerfile", docker)], "gpu! cards=4 vram=40..48");
    let compose = "services:\n  vllm:\n    image: vllm/vllm-openai:latest\n    command: --model mistralai/Mixtral-8x22B-Instruct-v0.1 --tensor-parallel-size 8\n    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all, capabilities: [gpu]}]}}}\n";
    expect("compose", &[("docker-compose.yaml", compose)], "gpu! cards=8 vram=40..48");
    let readme = "# tgi\n\n```bash\ntext-generation-launcher --model-id bigscience/bloom-7b1 --num-shard 2\n```\n";
    expect("readme", &[("README.md", readme), ("requirements.txt", "text-generation\ntorch\n")], "gpu cards=2");
}

#[test]
fn options_of_spark_and_resources_of_ray_count() {
    let readme = "# etl\n\n```\nspark-submit --master local[32] --driver-memory 200g etl.py\n```\n";
    let source = "from pyspark.sql import SparkSession\n";
    expect("spark", &[("README.md", readme), ("etl.py", source)], "cpu cores=32 ram=200..256");
    let ray = "import ray\nray.init(num_cpus=48, num_gpus=4)\n";
    expect("ray", &[("main.py", ray), ("requirements.txt", "ray[default]\ntorch\n")], "gpu cards=4 cores=48");
}

#[test]
fn a_rule_of_a_workflow_that_asks_for_a_card_needs_one() {
    let rules = "rule basecall:\n    resources: mem_mb=16000, nvidia_gpu=1\n    shell: \"dorado basecaller\"\n";
    expect("snakemake", &[("workflow/Snakefile", rules)], "gpu ram=16");
}

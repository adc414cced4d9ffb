//! The page of settings: every key of scheduler, worker and operator with its variable, flag and default.

use clap::Command;

use super::{Page, cell, code};

fn section(page: &mut Page, title: &str, command: &Command) {
    page.heading(2, title);
    let about = command.get_about().map(|about| cell(&about.to_string())).unwrap_or_default();
    page.paragraph(&format!("`orlop {title}`: {about}."));
    let all = command.get_arguments().filter(|arg| {
        !arg.is_hide_set()
            && arg.get_long().is_some()
            && !matches!(arg.get_id().as_str(), "help" | "version" | "print_config")
    });
    let rows = all.map(|arg| {
        let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
        let (help, variable) = help.rsplit_once(" [env: ").unwrap_or((help.as_str(), ""));
        let variable = variable.trim_end_matches(']');
        let flag = code(&format!("--{}", arg.get_long().unwrap_or_default()));
        [code(arg.get_id().as_str()), code(variable), flag, code(&defaults.join(",")), cell(help)]
    });
    page.table(["key", "variable", "flag", "default", "meaning"], &rows.collect::<Vec<_>>());
}

#[test]
fn the_page_of_settings_is_that_of_the_programs() {
    let intro = "Scheduler, worker and operator are configured alike. A setting comes from the file that `--config` names, from a variable or\n\
        from a flag; the later of these wins. A key `listen` in section `server` is `server.listen` here. A variable whose name ends in\n\
        `_FILE` names a file with the value. Sizes are in bytes; durations are in milliseconds, or have a unit as in `5s`.\n\
        `--print-config` shows every setting with its value and where that comes from.";
    let mut page = Page::new("configuration.md", "Configuration", intro);
    section(&mut page, "scheduler", &crate::host::scheduler::program::command());
    #[cfg(target_os = "linux")]
    section(&mut page, "worker", &crate::host::worker::program::command());
    section(&mut page, "operator", &crate::host::operator::program::command());
    page.compare();
}

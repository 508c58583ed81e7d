//! `zklock completions` and `zklock man`.
//!
//! A page of the manual is a file of the folder `man`, in the language of `man`. Its lines of the form `@options@` stand
//! for what `clap` knows, and for what all pages have.

use std::fs;
use std::io;
use std::path::Path;

use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use crate::arguments::command;
use crate::exit::{Failure, Outcome};
use crate::output::print;

const EXIT_STATUS: &str = include_str!("../man/exit-status.man");
const ENVIRONMENT: &str = include_str!("../man/environment.man");
const GUIDE: &str = env!("CARGO_PKG_REPOSITORY");

pub(crate) fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "zklock", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Prints the main page to stdout, or writes all pages into a folder.
pub(crate) fn man(folder: Option<&Path>) -> Outcome {
    let command = command();
    let Some(folder) = folder else { return print(&page(&command, &command)?) };
    let pages = [&command].into_iter().chain(command.get_subcommands());
    let written = fs::create_dir_all(folder).and_then(|()| {
        for one in pages {
            fs::write(folder.join(format!("{}.1", name(one))), page(one, &command)?)?;
        }
        Ok(())
    });
    written.map_err(|error| Failure::unusable_file("--dir", folder, &error))?;
    Ok(0)
}

/// Returns the text of a command's page.
fn source(command: &clap::Command) -> &'static str {
    match command.get_name() {
        "zklock" => include_str!("../man/zklock.man"),
        "run" => include_str!("../man/run.man"),
        "elect" => include_str!("../man/elect.man"),
        "observe" => include_str!("../man/observe.man"),
        "ls" => include_str!("../man/ls.man"),
        "revoke" => include_str!("../man/revoke.man"),
        "break" => include_str!("../man/break.man"),
        "check" => include_str!("../man/check.man"),
        "completions" => include_str!("../man/completions.man"),
        "man" => include_str!("../man/man.man"),
        name => unreachable!("the command {name} has no page in the folder man"),
    }
}

/// Returns the page of `command`, which is `all` or one of its subcommands.
fn page(command: &clap::Command, all: &clap::Command) -> io::Result<String> {
    // In the help of a command the connection options are hidden, because a help fits a screen.
    let shown = command.clone().mut_args(|argument| {
        let is_hidden = argument.is_hide_set() && !argument.is_global_set();
        argument.hide(is_hidden)
    });
    let version = format!("zklock {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(shown).title(name(command)).source(version).manual("zklock");
    let rendered = |render: fn(&Man, &mut dyn io::Write) -> io::Result<()>| {
        let mut text = Vec::new();
        render(&man, &mut text)?;
        Ok::<_, io::Error>(String::from_utf8_lossy(&text).into_owned())
    };
    let title = rendered(Man::render_title)?;
    let name_section = rendered(Man::render_name_section)?;
    let text = source(command)
        .replace("@options@\n", &rendered(Man::render_options_section)?)
        .replace("@commands@\n", &rendered(Man::render_subcommands_section)?)
        .replace("@exit-status@\n", EXIT_STATUS)
        .replace("@environment@\n", ENVIRONMENT)
        .replace("@see-also@\n", &see_also(command, all));
    // Options and variables are searched for and copied, so no line is hyphenated or filled up with blanks.
    let lines = ".nh\n.ad l\n";
    Ok(title + lines + &name_section + &synopsis(command) + &text)
}

/// Returns the name of a command's page, such as `zklock-run`.
fn name(command: &clap::Command) -> &str {
    command.get_display_name().unwrap_or(command.get_name())
}

/// Returns the usage of the command.
fn synopsis(command: &clap::Command) -> String {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let usage = command.clone().render_usage().to_string();
    let rest = usage.split_once(name).map_or("", |(_, rest)| rest);
    let mut roff = Roff::default();
    roff.control("SH", ["SYNOPSIS"]).text([bold(name), italic(rest.replace(['<', '>'], ""))]);
    roff.render()
}

/// Returns the names of all other pages, and the address of the guide.
fn see_also(command: &clap::Command, all: &clap::Command) -> String {
    let pages = [all].into_iter().chain(all.get_subcommands()).map(name);
    let others = pages.filter(|page| *page != name(command));
    let mut line = Vec::new();
    for other in others {
        line.extend([bold(other), roman("(1), ")]);
    }
    line.push(roman(GUIDE));
    let mut roff = Roff::default();
    roff.control("SH", ["SEE ALSO"]).text(line);
    roff.render()
}

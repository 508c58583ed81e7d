//! `zklock completions` and `zklock man`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap_complete::Shell;
use clap_mangen::Man;

use crate::arguments::command;
use crate::exit::{Failure, Outcome};
use crate::output::printed;

pub(crate) fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "zklock", &mut script);
    printed(&String::from_utf8_lossy(&script))
}

/// The main page on stdout, or all pages into a folder.
pub(crate) fn man(folder: Option<&Path>) -> Outcome {
    let main = command();
    let Some(folder) = folder else {
        let page = page(&main, None).map_err(|error| failed("the page", &error))?;
        return printed(&String::from_utf8_lossy(&page));
    };
    fs::create_dir_all(folder).map_err(|error| cannot_be_there(folder, &error))?;
    let commands = main.get_subcommands().map(|command| (Some(&main), command));
    for (of, command) in [(None, &main)].into_iter().chain(commands) {
        let file = folder.join(format!("{}.1", name(command, of)));
        page(command, of)
            .and_then(|page| fs::write(&file, page))
            .map_err(|error| cannot_be_there(&file, &error))?;
    }
    Ok(0)
}

/// The folder was not well chosen, or there is no room in it.
fn cannot_be_there(file: &Path, error: &io::Error) -> Failure {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    let what = file.display();
    match error.kind() {
        NotFound | NotADirectory | PermissionDenied | ReadOnlyFilesystem => {
            Failure::usage(format!("--dir: cannot write {what}: {error}"))
        }
        _ => failed(&what.to_string(), error),
    }
}

fn failed(what: &str, error: &io::Error) -> Failure {
    Failure::internal(format!("cannot write {what}: {error}"))
}

fn name(command: &clap::Command, of: Option<&clap::Command>) -> String {
    of.map_or_else(
        || command.get_name().to_owned(),
        |of| format!("{}-{}", of.get_name(), command.get_name()),
    )
}

fn page(command: &clap::Command, of: Option<&clap::Command>) -> io::Result<Vec<u8>> {
    let version = env!("CARGO_PKG_VERSION");
    let described = command.clone().version(version).long_about(description(command.get_name()));
    let man = Man::new(described).title(name(command, of));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if of.is_none() {
        man.render_subcommands_section(&mut page)?;
        page.write_all(ENVIRONMENT.as_bytes())?;
        page.write_all(FILES.as_bytes())?;
    }
    page.write_all(EXIT_STATUS.as_bytes())?;
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    for line in help.lines().filter_map(|line| line.strip_prefix("Example: ")) {
        writeln!(page, ".SH EXAMPLE\n.nf\n{}\n.fi", line.replace('-', "\\-"))?;
    }
    let others = if of.is_none() { "" } else { ".BR zklock (1)\n" };
    write!(
        page,
        ".SH \"SEE ALSO\"\n{others}https://github.com/zookeeper-recipes/zookeeper-recipes\n"
    )?;
    Ok(page)
}

fn description(command: &str) -> &'static str {
    match command {
        "run" => {
            "Waits until the lock at PATH is held, runs COMMAND, and gives the lock back when that has ended, with its \
             exit code. When the lock is lost meanwhile, the command and its process group are ended. Standard input \
             and output are the command's. It finds the path, the node and the fencing token in ZK_LOCK_PATH, \
             ZK_LOCK_NODE and ZK_LOCK_TOKEN."
        }
        "elect" => {
            "Stands for election at PATH, and runs COMMAND while it leads. When COMMAND ends by itself, the leadership \
             is given up. When the leadership is lost, COMMAND is ended as by run, and the election goes on. Without a \
             command, lines say whether it leads."
        }
        "observe" => {
            "Says who leads, a line for each change, the first one at once, until a signal. While no server answers, \
             the line says that it is unknown: who led may lead on, or not."
        }
        "ls" => {
            "Shows who holds the lock at PATH and who waits, in the order of the queue. What kind of lock it is, is \
             told by the names of its nodes. The age is that of the node, so that of a holder includes its waiting."
        }
        "revoke" => {
            "Asks each holder of the lock at PATH to give it back. It is a request: who does not listen goes on. \
             zklock run ends its command."
        }
        "break" => {
            "Deletes the node of who holds the lock at PATH. The holder is not stopped by that: it is told that it lost \
             the lock, and somebody else may hold it meanwhile."
        }
        "completions" => "Prints a completion script.",
        "man" => "Prints the main page, or writes a page for each command into DIR.",
        _ => {
            "Locks, semaphores and elections on ZooKeeper, for the shell. They keep out, and are kept out by, the \
             recipes of Apache Curator on the same path, and by those of the Rust crate zookeeper\\-recipes."
        }
    }
}

const EXIT_STATUS: &str = r#".SH "EXIT STATUS"
.TP
.B 0
What was asked for was done; of run and elect, the command ended with 0.
.TP
.B 1
Of break, the question was answered with no.
.TP
.B 64
Wrong usage, configuration or path.
.TP
.B 69
ZooKeeper cannot be reached, or refuses.
.TP
.B 70
zklock itself failed.
.TP
.B 75
The lock is busy, or the time is up (run \-n, \-w); \-E sets another.
.TP
.B 76
The lock, or the leadership, was lost while the command ran.
.TP
.B 126, 127
The command cannot be executed, or is not there.
.TP
.B 128+N
Ended by signal N, zklock or the command.
.TP
.B other
Of run and elect, the exit code of the command.
"#;

const ENVIRONMENT: &str = r".SH ENVIRONMENT
ZKLOCK_SERVER, ZKLOCK_CONFIG, ZKLOCK_SESSION_TIMEOUT, ZKLOCK_CONNECTION_TIMEOUT, ZKLOCK_NAMESPACE, ZKLOCK_ID,
ZKLOCK_AUTH_FILE, ZKLOCK_TLS_CA, ZKLOCK_TLS_CERT and ZKLOCK_TLS_KEY stand for the options of that name.
.TP
.B ZKLOCK_AUTH
Credentials: scheme:credentials, such as digest:user:password.
.TP
.B RUST_LOG
With \-\-verbose, what is logged.
";

const FILES: &str = r#".SH FILES
The first of these that is there, unless \-\-config names another: $XDG_CONFIG_HOME/zklock.toml (or
~/.config/zklock.toml), /etc/zklock.toml. It has lines like
.PP
.nf
server = "zk1:2181,zk2:2181,zk3:2181"
session\-timeout = "30s"
auth\-file = "zklock.auth"
.fi
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_with_an_example() {
        let main = command();
        for command in main.get_subcommands() {
            let page = String::from_utf8(page(command, Some(&main)).unwrap()).unwrap();
            let title = format!(".TH zklock-{} 1", command.get_name());
            assert!(page.contains(&title) && page.contains(".SH EXAMPLE"), "{page}");
            assert_ne!(description(command.get_name()), description(""));
        }
    }
}

//! Help, completions, manual.

use crate::support::tool::{Tool, ZKLOCK};

const COMMANDS: [&str; 9] =
    ["run", "elect", "observe", "ls", "revoke", "break", "check", "completions", "man"];

/// It needs no server.
fn zklock(all: &[&str]) -> Tool {
    Tool::new(ZKLOCK, std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))).args(all)
}

#[tokio::test]
async fn each_help_fits_a_screen_and_has_an_example() {
    let mut all = vec![vec!["--help"], vec!["-h"]];
    for command in COMMANDS {
        all.extend([vec![command, "--help"], vec![command, "-h"]]);
    }
    for arguments in all {
        let ended = zklock(&arguments).env("COLUMNS", "80").ended().await;
        ended.quietly(0);
        let text = ended.text();
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{arguments:?}: {widest} columns\n{text}");
        assert!(text.lines().count() <= 40, "{arguments:?}: {} lines", text.lines().count());
        assert!(
            text.contains("Example") && text.contains("Usage: zklock"),
            "{arguments:?}\n{text}"
        );
    }
    let version = format!("zklock {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(zklock(&["--version"]).ended().await.text(), version);
}

/// Loaded into a shell, the script completes; there is one for each shell, and a page for each command.
#[tokio::test]
async fn completions_and_manual_name_each_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = zklock(&["completions", shell]).ended().await;
        ended.quietly(0);
        let text = ended.text();
        assert!(COMMANDS.iter().all(|command| text.contains(command)), "{shell}: {text}");
    }
    let script = r#"source <("$ZKLOCK" completions bash)
        COMP_WORDS=(zklock ru); COMP_CWORD=1; _zklock zklock ru zklock; echo "${COMPREPLY[*]}"
        COMP_WORDS=(zklock run --non); COMP_CWORD=2; _zklock zklock --non run; echo "${COMPREPLY[*]}""#;
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let tool = Tool::new("bash", folder).args(["--norc", "-c", script]);
    let ended = tool.env("ZKLOCK", ZKLOCK).ended().await;
    ended.quietly(0);
    assert_eq!(ended.text(), "run\n--nonblock\n");
    assert!(zklock(&["man"]).ended().await.text().contains(".TH zklock 1"));
    let folder = folder.join(format!("man-{}", fastrand::u64(..)));
    zklock(&["man", "--dir", &folder.display().to_string()]).ended().await.quietly(0);
    for command in COMMANDS {
        let page = std::fs::read_to_string(folder.join(format!("zklock-{command}.1"))).unwrap();
        assert!(page.contains(".TH ") && page.contains("Example: "), "{page}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let ended = zklock(&["man", "--dir", "/dev/null/folder"]).ended().await;
    ended.one_line(64, &["--dir", "/dev/null/folder"]);
}

#[tokio::test]
async fn help_that_cannot_be_written_is_an_error_unless_nobody_reads_it() {
    for arguments in [&["--help"][..], &["ls", "--help"], &["man"], &["completions", "bash"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut tool = zklock(arguments);
        tool.command().stdout(full);
        tool.ended().await.one_line(70, &["cannot write"]);
        // As by `zklock man | head -1`.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut tool = zklock(arguments);
        tool.command().stdout(writer);
        tool.ended().await.quietly(0);
    }
}

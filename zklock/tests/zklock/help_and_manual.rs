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
        assert!(text.lines().count() <= 46, "{arguments:?}: {} lines", text.lines().count());
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
    let ended = zklock(&["man", "--dir", "/dev/null/folder"]).ended().await;
    ended.one_line(64, &["--dir", "/dev/null/folder"]);
}

/// The sections of a page, without those of one command.
const SECTIONS: [&str; 10] = [
    "NAME",
    "SYNOPSIS",
    "DESCRIPTION",
    "OPTIONS",
    "CONNECTION OPTIONS",
    "EXIT STATUS",
    "ENVIRONMENT",
    "FILES",
    "EXAMPLES",
    "SEE ALSO",
];

#[tokio::test]
async fn each_manual_page_has_the_usual_sections() {
    let folder = format!("{}/man-{}", env!("CARGO_TARGET_TMPDIR"), fastrand::u64(..));
    zklock(&["man", "--dir", &folder]).ended().await.quietly(0);
    let page = |name: &str| std::fs::read_to_string(format!("{folder}/{name}.1")).unwrap();
    let pages = COMMANDS.map(|command| format!("zklock-{command}"));
    let pages: Vec<_> = pages.into_iter().chain(["zklock".to_owned()]).collect();
    for name in &pages {
        let text = page(name);
        assert!(text.contains(&format!(".TH {name} 1 ")), "{name}: {text}");
        let sections = text.lines().filter_map(|line| line.strip_prefix(".SH "));
        let sections = sections.map(|section| section.trim_matches('"'));
        let usual: Vec<_> = sections.filter(|section| SECTIONS.contains(section)).collect();
        // The page `zklock` has connection options only; a section without a row is left out.
        let expected =
            SECTIONS.iter().filter(|section| usual.contains(section) || **section != "OPTIONS");
        assert!(usual.iter().eq(expected), "{name}: {usual:?}");
        assert!(!text.contains(".SH EXTRA") && !text.contains('@'), "{name}: {text}");
        for expected in
            ["\\-\\-server", "ZKLOCK_SERVER", "ZK_LOCK_TOKEN", "/etc/zklock.toml", ".B 69"]
        {
            assert!(text.contains(expected), "{name} has no {expected}: {text}");
        }
        let others = pages.iter().filter(|other| *other != name);
        let see_also = text.split(".SH \"SEE ALSO\"").nth(1).unwrap().replace('\\', "");
        for other in others {
            assert!(see_also.contains(&format!("fB{other}fR(1)")), "{name}: {see_also}");
        }
    }
    let run = page("zklock-run");
    let synopsis = run.lines().find(|line| line.contains("[OPTIONS]")).unwrap();
    let synopsis =
        synopsis.replace("\\fB", "").replace("\\fI", "").replace("\\fR", "").replace('\\', "");
    assert_eq!(synopsis, "zklock run [OPTIONS] PATH... -- COMMAND [ARG]...");
    assert!(page("zklock-ls").replace('\\', "").contains("--watchfR"));
    for code in [".B 75", ".B 76", ".BR 126"] {
        assert!(run.contains(code), "{run}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_guide_shows_the_unit_of_the_packages() {
    let read = |file: &str| {
        std::fs::read_to_string(format!("{}/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    let guide = read("../docs/guide/zklock.md");
    let unit = read("package/zklock@.service");
    assert!(guide.contains(&format!("```ini\n{unit}```")), "{unit}");
}

/// Each line of the machine's configuration is an example that an administrator uncomments.
#[tokio::test]
async fn the_configuration_of_the_packages_is_accepted() {
    let text = include_str!("../../package/zklock.toml");
    let lines = text.lines().filter(|line| !line.starts_with("# "));
    let lines: Vec<_> = lines.map(|line| line.trim_start_matches('#')).collect();
    let file = format!("{}/packaged-{}.toml", env!("CARGO_TARGET_TMPDIR"), fastrand::u64(..));
    std::fs::write(&file, lines.join("\n").replace("/etc/", "/missing/")).unwrap();
    // The file is read to its end before the credentials are.
    let ended = zklock(&["--config", &file, "ls", "/a"]).ended().await;
    ended.one_line(64, &["auth-file: cannot read /missing/zklock.auth"]);
    std::fs::remove_file(&file).unwrap();
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

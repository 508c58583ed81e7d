//! Help, completions, manual.

use crate::scene::Scene;
use crate::tool::{Ended, Tool};

const COMMANDS: [&str; 8] =
    ["run", "elect", "observe", "ls", "revoke", "break", "completions", "man"];

/// It needs no server.
fn alone() -> (std::path::PathBuf, impl Fn(&[&str]) -> Tool) {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).to_owned();
    let here = folder.clone();
    (folder, move |all: &[&str]| Tool::new(crate::tool::ZKLOCK, &here).args(all))
}

#[tokio::test]
async fn each_help_fits_a_screen_and_has_an_example() {
    let (_, zklock) = alone();
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
        assert!(text.contains("Example"), "{arguments:?}\n{text}");
        assert!(text.contains("Usage: zklock"), "{arguments:?}\n{text}");
    }
}

#[tokio::test]
async fn the_version_is_told() {
    let (_, zklock) = alone();
    let ended = zklock(&["--version"]).ended().await;
    ended.quietly(0);
    assert_eq!(ended.text(), format!("zklock {}\n", env!("CARGO_PKG_VERSION")));
}

/// As each shell would read them, where it is there.
#[tokio::test]
async fn the_shells_accept_their_completions() {
    let (folder, zklock) = alone();
    for (name, shell) in [
        ("bash", Some("bash")),
        ("zsh", Some("zsh")),
        ("fish", Some("fish")),
        ("elvish", None),
        ("powershell", None),
    ] {
        let ended = zklock(&["completions", name]).ended().await;
        ended.quietly(0);
        let text = ended.text();
        for command in COMMANDS {
            assert!(text.contains(command), "{name}: {command}");
        }
        let Some(shell) = shell else { continue };
        let checked = read_by(Tool::new(shell, &folder).arg("-n"), &text).await;
        if let Some(checked) = checked {
            checked.quietly(0);
        }
    }
}

/// None where there is no such program.
async fn read_by(mut tool: Tool, text: &str) -> Option<Ended> {
    let program = tool.command().as_std().get_program().to_owned();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&paths).any(|folder| folder.join(&program).exists()) {
        println!("SKIPPED: there is no {}", program.display());
        return None;
    }
    Some(tool.input(text).ended().await)
}

/// Loaded, it completes.
#[tokio::test]
async fn bash_completes() {
    let (folder, _) = alone();
    let script = r#"source <("$ZKLOCK" completions bash)
        COMP_WORDS=(zklock ru); COMP_CWORD=1; _zklock zklock ru zklock; echo "${COMPREPLY[*]}"
        COMP_WORDS=(zklock run --non); COMP_CWORD=2; _zklock zklock --non run; echo "${COMPREPLY[*]}""#;
    let tool = Tool::new("bash", &folder).args(["--norc", "-c", script]);
    let ended = tool.env("ZKLOCK", crate::tool::ZKLOCK).ended().await;
    ended.quietly(0);
    assert_eq!(ended.text(), "run\n--nonblock\n");
}

#[tokio::test]
async fn the_manual_is_one() {
    let (folder, zklock) = alone();
    let ended = zklock(&["man"]).ended().await;
    ended.quietly(0);
    let page = ended.text();
    assert!(page.contains(".TH") && page.contains("zklock"), "{page}");
    let dir = folder.join(format!("man-{}", fastrand::u64(..)));
    std::fs::create_dir_all(&dir).unwrap();
    let name = dir.display().to_string();
    zklock(&["man", "--dir", &name]).ended().await.quietly(0);
    let mut pages: Vec<String> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    let mut expected: Vec<String> =
        COMMANDS.iter().map(|command| format!("zklock-{command}.1")).collect();
    expected.push("zklock.1".to_owned());
    expected.sort();
    assert_eq!(pages, expected);
    for page in pages {
        let text = std::fs::read_to_string(dir.join(&page)).unwrap();
        assert!(text.contains(".TH"), "{page}");
        let tool = Tool::new("groff", &folder).args(["-man", "-Tutf8", "-ww", "-z"]);
        if let Some(checked) = read_by(tool, &text).await {
            checked.quietly(0);
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
    // A folder that cannot be there is said.
    let ended = zklock(&["man", "--dir", "/dev/null/folder"]).ended().await;
    ended.one_line(64, &["--dir", "/dev/null/folder"]);
}

#[tokio::test]
async fn help_that_cannot_be_written_is_an_error() {
    let (_, zklock) = alone();
    for arguments in [&["--help"][..], &["ls", "--help"], &["man"], &["completions", "bash"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut tool = zklock(arguments);
        tool.command().stdout(full);
        tool.ended().await.one_line(70, &["cannot write"]);
    }
}

/// `zklock man | head -1`.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_need_read_to_the_end() {
    let scene = Scene::new().await;
    let script =
        r#"for what in man "completions zsh" "run --help"; do "$ZKLOCK" $what | true; done"#;
    let ended = scene.tool("bash").args(["-c", script]).ended().await;
    ended.quietly(0);
    scene.end().await;
}

//! The shell scripts that tests run as commands. Each script reports by its [`Lifeline`](crate::support::lifeline::Lifeline).

use nix::sys::signal::Signal;

use crate::support::tool::Running;

/// Says that it has begun, and stays until it is ended.
pub(crate) const STAYS: &str = r#"exec 9>"$LIFE"; echo up >&9; exec sleep 1000"#;
/// The same, and says which process it is.
pub(crate) const STAYS_AS: &str = r#"exec 9>"$LIFE"; echo id $$ >&9; exec sleep 1000"#;
/// Ends with 5 when it is told to.
pub(crate) const GIVES_WAY: &str = r#"exec 9>"$LIFE"; trap 'echo TERM >&9; exit 5' TERM
    echo up >&9; while :; do sleep 1000 & wait; done"#;
/// Ends with 6 when the gate is opened, whatever it is told before.
pub(crate) const GOES_ON: &str = r#"exec 9>"$LIFE"; trap 'echo TERM >&9' TERM; echo up >&9
    until read line < "$GATE"; do :; done 2>/dev/null; echo done >&9; exit 6"#;
/// Does not end, nor does what it started.
pub(crate) const STUBBORN: &str = r#"exec 9>"$LIFE"; trap 'echo TERM >&9' TERM
    sh -c 'trap "echo inner TERM >&9" TERM; echo up >&9; while :; do sleep 1000 & wait; done' &
    while :; do wait; done"#;

/// Ends one that [`STAYS`].
pub(crate) async fn ends(running: Running) {
    running.ended_by(Signal::SIGTERM).await.quietly(143);
}

//! Processes that die with us, however we die.

use tokio::process::Command;

/// `setpriv` (util-linux) asks the kernel for it and becomes the program. The kernel looks at the thread that starts it,
/// which is our main thread: the runtime has no other.
pub(crate) fn dies_with_us(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]);
    // A Ctrl-C in the terminal is for us, and we take them along.
    command.process_group(0).kill_on_drop(true);
    command
}

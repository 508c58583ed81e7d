//! `zklock revoke`.

use zookeeper_recipes::{Curator, Revoker};

use crate::arguments::Revoke;
use crate::connection::connect;
use crate::contenders::{check_name, chosen, contenders};
use crate::exit::{Outcome, say};
use crate::output::print;
use crate::settings::Settings;
use crate::text;

pub(crate) async fn revoke(arguments: &Revoke, settings: &Settings) -> Outcome {
    check_name(arguments.node.as_deref())?;
    let curator = connect(settings).await?;
    let outcome = ask(&curator, arguments).await;
    let _ = curator.close().await; // it has nothing to lose
    outcome
}

async fn ask(curator: &Curator, arguments: &Revoke) -> Outcome {
    let Revoke { path, node } = arguments;
    let asked = chosen(contenders(curator, path).await?, node.as_deref());
    let revoker = Revoker::new(curator);
    let mut reached = 0;
    for contender in &asked {
        if !revoker.attempt_revoke(&contender.participant.path).await? {
            continue; // it is gone, and that is what was wanted
        }
        reached += 1;
        let does = if contender.participant.holds { "holds it" } else { "waits for it" };
        let (who, age) = (contender.who(), contender.age());
        let node = text::visible(contender.node().as_bytes());
        let line = format!("asked {who}, which {does}, for {age} ({node})\n");
        if let Err(outcome) = print(&line) {
            return outcome;
        }
    }
    if reached == 0 {
        let path = text::visible(path.as_bytes());
        say(&match node {
            Some(node) => format!("{} is not at {path}", text::visible(node.as_bytes())),
            None => format!("nobody holds {path}"),
        });
    }
    Ok(0)
}

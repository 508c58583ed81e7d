//! `zklock revoke`.

use zookeeper_recipes::Curator;
use zookeeper_recipes::interop::Revoker;

use crate::arguments::Revoke;
use crate::connection::connect;
use crate::contenders::{check_name, chosen, contenders, nobody};
use crate::exit::{First, Outcome, say};
use crate::output::printed;
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
    let (mut reached, mut first) = (0, First::default());
    for contender in &asked {
        match revoker.attempt_revoke(&contender.participant.node).await {
            Ok(true) => reached += 1,
            Ok(false) => continue, // it is gone, and that is what was wanted
            Err(error) => {
                reached += 1; // there it is
                first.note(Err(error.into()));
                continue;
            }
        }
        let does = if contender.participant.holds { "holds it" } else { "waits for it" };
        let (who, age) = (contender.who(), contender.age());
        let node = text::visible(contender.node().as_bytes());
        first.note(printed(&format!("asked {who}, which {does}, for {age} ({node})\n")));
    }
    if reached == 0 {
        say(&nobody(path, node.as_deref()));
    }
    first.outcome()
}

//! `zklock revoke`.

use zookeeper_recipes::interop::Revoker;

use crate::arguments::Revoke;
use crate::connection::briefly;
use crate::contenders::{check_name, chosen, contenders, nobody};
use crate::exit::{First, Outcome, say};
use crate::output::print;
use crate::settings::Settings;
use crate::text;

pub(crate) async fn revoke(arguments: &Revoke, settings: &Settings) -> Outcome {
    let path = &arguments.path;
    let node = arguments.node.as_deref();
    check_name(node)?;
    briefly(settings, async |curator| {
        let revoker = Revoker::new(curator);
        let mut is_there = false;
        let mut first = First::default();
        for contender in chosen(contenders(curator, path).await?, node) {
            first.note(match revoker.attempt_revoke(&contender.node).await {
                Ok(false) => continue, // its znode was deleted meanwhile
                Ok(true) => {
                    let does = if contender.holds { "holds it" } else { "waits for it" };
                    let who = contender.who();
                    let queued = contender.queued();
                    let node = text::visible(contender.node_name().as_bytes());
                    print(&format!("asked {who}, which {does} and queued {queued} ago ({node})\n"))
                }
                Err(error) => Err(error.into()),
            });
            is_there = true;
        }
        if !is_there {
            say(&nobody(curator, path, node).await);
        }
        first.outcome()
    })
    .await
}
